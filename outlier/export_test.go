package outlier

// IsPaged reports whether an operation has pages.
func (o Operation) IsPaged() bool { return o.isPaged() }
