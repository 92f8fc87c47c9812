// Exists so that precompiled headers have separate targets.
