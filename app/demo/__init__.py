"""Demo traffic: generated prompts played through the real gateway against a bundled stub model. Labelled as such everywhere."""
