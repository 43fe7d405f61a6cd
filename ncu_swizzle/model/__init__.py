"""The commands `banks`, `predict` and `suggest`: from what was asked to what is answered, by the model of `smem`."""
