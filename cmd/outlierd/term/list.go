package term

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

// A Link is a value of a row: a text that leads to an address.
type Link struct{ Text, Address string }

// webAddress returns an address that is safe to follow and to write between < and >, or "".
func webAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || len(address) > 2000 || strings.ContainsAny(address, "<> |\\\n") {
		return ""
	}
	return address
}

// ListFormats are the formats of [NewList]: those in which people pass a list on.
var ListFormats = []string{"csv", "xlsx", "md", "links"}

// NewList returns a printer of a list in one of the [ListFormats]. Times in xlsx and md are in the zone, those in csv
// are UTC. Texts that a spreadsheet would run as formulas are made harmless in csv. links has the first link of each row,
// one per line.
func NewList(format string, w io.Writer, zone *time.Location, columns []string) (Printer, error) {
	switch format {
	case "csv":
		names := make([]string, len(columns))
		for i, column := range columns {
			names[i] = Defuse(column)
		}
		p, err := NewPrinter("csv", w, Options{}, names)
		return defused{p}, err
	case "xlsx":
		return NewSheet(w, zone, columns, nil)
	case "md":
		return newMarkdown(w, zone, columns), nil
	case "links":
		return linkPrinter{w}, nil
	}
	return nil, fmt.Errorf("unknown format %q: want %s", format, OneOf(ListFormats))
}

// Defuse returns a text that a spreadsheet does not run as a formula.
func Defuse(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}

// defused prints texts that are no formulas.
type defused struct{ Printer }

func (d defused) Row(values []any) error {
	row := make([]any, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case string:
			row[i] = Defuse(v)
		case Link:
			row[i] = Defuse(v.Text)
		default:
			row[i] = v
		}
	}
	return d.Printer.Row(row)
}

// linkPrinter prints the first address of each row.
type linkPrinter struct{ w io.Writer }

func (p linkPrinter) Row(values []any) error {
	for _, v := range values {
		if link, ok := v.(Link); ok && webAddress(link.Address) != "" {
			_, err := fmt.Fprintln(p.w, link.Address)
			return err
		}
	}
	return nil
}

func (p linkPrinter) Close() error { return nil }
