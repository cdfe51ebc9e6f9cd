"""The native decoder: C that translates on a CPU without torch. nmt/engines/native_engine.py is its only user."""
