package schema

// Markdown is the reference of all tables, as in docs/tables.md.
func Markdown() string { return "" }
