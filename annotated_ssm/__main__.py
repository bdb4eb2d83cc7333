"""`python -m annotated_ssm`, the same as the command `annotated-ssm`."""

from annotated_ssm.experiments import main

raise SystemExit(main())
