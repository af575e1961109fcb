"""What makes the generated parts of the pages, a module a page: from the files of results alone, nothing is trained."""
