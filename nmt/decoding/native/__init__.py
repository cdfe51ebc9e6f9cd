"""The native decoder: C that translates on a CPU without torch. Used by nmt/decoding/engines alone."""
