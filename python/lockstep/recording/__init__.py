"""Records a run: what lockstep.init() returns."""
