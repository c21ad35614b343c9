"""A scripted agent that shows what the processor does: no model, no network, a shop and a customer that are made up."""
