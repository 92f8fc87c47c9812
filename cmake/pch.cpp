// Exists so that precompiled headers have targets of their own.
