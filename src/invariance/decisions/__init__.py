"""From a posterior to what a person does: which features to use."""
