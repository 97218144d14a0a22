"""What holds for every test: hypothesis gives no deadline, for a busy machine is no fault of the code."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
