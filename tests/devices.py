"""Processes that pretend to have several devices: JAX counts them when it starts."""

import os


def cpu_devices(count):
    """The environment of a process with so many CPU devices; other flags stay."""
    flags = os.environ.get("XLA_FLAGS", "")
    return os.environ | {
        "XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count={count}",
        "JAX_PLATFORMS": "cpu"}
