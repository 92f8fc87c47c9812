"""lockstep-compile hf:DIR: compiles a model directory of transformers, without a Python file of the user."""
