"""The paper's two laws, and the bounds of its appendix."""
