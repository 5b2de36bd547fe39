"""One module for each revision. One that was released is never changed."""
