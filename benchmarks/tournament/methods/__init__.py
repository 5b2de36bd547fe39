"""The methods, one file for what each looks at; each class says where it is described."""
