"""`python -m annotated_ssm`, the same as the command `annotated-ssm`."""

from annotated_ssm.command_line import main

raise SystemExit(main())
