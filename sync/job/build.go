package job

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // time zones belong to the grammar, whatever the machine has

	"outlierd/outlier"
	"outlierd/outlier/pace"
)

// textOr is the text of a scalar that may be used, or else otherwise.
func (n *node) textOr(otherwise string) string {
	if n.has(text, whole, number, boolean) {
		return n.text
	}
	return otherwise
}

// credits is an amount, or nil if there is none to be used.
func (n *node) credits() *outlier.Credits {
	if !n.has(whole) {
		return nil
	}
	v, err := strconv.ParseInt(n.text, 10, 64)
	if err != nil {
		return nil // the schema has bounded its size
	}
	return new(outlier.Credits(v))
}

// foreign reports what another package says about n's value, unless the value came
// from outside the file: those words may quote it, and it may be a secret.
func (b *builder) foreign(n *node, words string) {
	if n.filled() {
		words = "the value of " + n.shown() + " is not valid here"
	}
	b.refuse(n, "%s", words)
}

// absolute is a path of the file as the rest of the program sees it.
func (b *builder) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(b.cfg.Dir, path)
}

func (b *builder) timezone(n *node) {
	b.cfg.Timezone = time.UTC
	name := n.textOr("UTC")
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		b.refuseWithHint(n, "zones are named as in Europe/Berlin", "there is no time zone %s", n.shown())
		return
	}
	b.cfg.Timezone = zone
}

func (b *builder) service(n *node) {
	s := &b.cfg.Service
	s.AllowHTTP = strings.EqualFold(n.get("allow_http").textOr(""), "true")
	s.Paging = n.get("paging").textOr(PagingAuto)
	s.Arrays = outlier.Arrays(n.get("arrays").textOr(string(outlier.ArraysRepeat)))
	if file := n.get("ca_file").textOr(""); file != "" {
		s.CAFile = b.absolute(file)
	}
	b.url(n.get("url"))
	b.key(n)
	b.limit(n.get("limit"))
	b.share(n.get("share"))
	s.MaxWait = b.duration(n.get("max_wait"))
	b.prices(n.get("prices"))
}

// share is the part of the limit that is ours.
func (b *builder) share(n *node) {
	b.cfg.Service.Share = 1
	if !n.has(whole, number) {
		return
	}
	x, err := parseNumber(n.text)
	if err != nil || x <= 0 || x > 1 {
		b.refuse(n, "wants a share above 0 and at most 1, such as 0.5, not %s", n.shown())
		return
	}
	b.cfg.Service.Share = x
}

// prices are those that differ from what is documented. The schema has their names.
func (b *builder) prices(n *node) {
	if !n.has(mapping) || len(n.entries) == 0 {
		return
	}
	b.cfg.Service.Prices = outlier.Prices{}
	for _, e := range n.entries {
		if price := e.value.credits(); price != nil {
			b.cfg.Service.Prices[e.key.text] = *price
		}
	}
}

// unneeded lets a value of the service be missing that only calls need.
func (b *builder) unneeded(n *node, what string) {
	if n == nil || n.trouble == "" {
		return
	}
	b.warn(n, "", "%s; without the %s nothing can be run", n.trouble, what)
	n.trouble, n.wrong = "", true
}

func (b *builder) url(n *node) {
	if !n.has(text) {
		return
	}
	if n.text == Simulator {
		b.cfg.Service.URL = Simulator
		return
	}
	u, err := outlier.CheckURL(n.text, b.cfg.Service.AllowHTTP)
	if err != nil {
		b.foreign(n, err.Error())
		return
	}
	b.cfg.Service.URL = u.String()
}

// key takes the key from the environment or from a file. Written into jobs.yaml it
// would end up in backups, in version control and on screens.
func (b *builder) key(service *node) {
	n, s := service.get("key"), &b.cfg.Service
	given := n.has(text, whole, number)
	switch {
	case given && defaulted.MatchString(n.raw):
		b.refuseWithHint(n, `leave it out, as in "${OUTLIERD_KEY}"`, "what stands after :- is a key in clear text")
	case given && n.raw != "" && !reference.MatchString(n.raw):
		b.refuseWithHint(n, `take it from outside: "${OUTLIERD_KEY}" or "${file:/run/secrets/outlierd_key}"`, "the key stands here in clear text")
	case given && n.text != "" && s.Simulated():
		b.refuseWithHint(n, "leave key out, or give the service's url", "sim:// takes no key, so that simulated rows never mix with bought ones")
	case s.URL == "" || s.Simulated():
	case n == nil && b.reading:
	case n == nil:
		b.missing(service, "key", `add key: "${OUTLIERD_KEY}"`)
	case given:
		key, err := outlier.NewKey(n.text)
		if err != nil {
			b.refuse(n, "%s: %s", n.shown(), err) // neither quotes the key
			return
		}
		s.Key = key
	}
}

// Limits that hold where the file names none: that of the service, and the simulator's
// own, which keeps whatever it is given.
var (
	documentedLimit = pace.Quota{Requests: 10, Window: time.Minute}
	simulatedLimit  = pace.Quota{Requests: 600, Window: time.Minute}
)

func (b *builder) limit(n *node) {
	b.cfg.Service.Limit = documentedLimit
	if b.cfg.Service.Simulated() {
		b.cfg.Service.Limit = simulatedLimit
	}
	if !n.has(text) {
		return
	}
	q, err := pace.ParseQuota(n.text)
	if err != nil {
		b.refuse(n, "wants a limit such as 10/min, 30/10s or 100/h, not %s", n.shown())
		return
	}
	b.cfg.Service.Limit = q
	if b.paid() && q.Time(1) < documentedLimit.Time(1) {
		b.warn(n, fmt.Sprintf("write %s, or leave limit out", documentedLimit),
			"%s is more than the %s that the service allows: calls are refused until its answers have taught the limit", q, documentedLimit)
	}
}

func (b *builder) data(n *node) {
	b.cfg.Data = b.absolute(n.textOr("data"))
	if override, _ := b.env("OUTLIERD_DATA"); override != "" {
		b.cfg.Data = b.absolute(override)
	}
}

func (b *builder) budget(n *node) {
	caps := &b.cfg.Budget
	caps.PerMonth = n.get("per_month").credits()
	caps.PerDay = n.get("per_day").credits()
	caps.Reserve = n.get("reserve").credits()
	caps.ConfirmOver = n.get("confirm_over").credits()
	caps.Pace = n.get("pace").textOr("")
	caps.Renews = 1
	if day, found := strings.CutPrefix(n.get("renews").textOr(""), "on day "); found {
		caps.Renews, _ = strconv.Atoi(day) // 1 to 31, says the schema
	}
	reserve := n.get("reserve")
	switch {
	case caps.Reserve != nil && n.get("per_month") == nil && !b.paid():
		b.refuse(reserve, "a reserve is a part of per_month, which is missing")
	case caps.Reserve != nil && caps.PerMonth != nil && *caps.Reserve >= *caps.PerMonth:
		b.refuse(reserve, "the reserve leaves nothing of per_month")
	}
}

// paid reports whether the service is one that takes money.
func (b *builder) paid() bool { return b.cfg.Service.URL != "" && !b.cfg.Service.Simulated() }

// sinksDownAfter is what the file means where it does not say.
const sinksDownAfter = 30 * time.Minute

func (b *builder) sinks(n *node) {
	if n == nil {
		b.cfg.Sinks = []Sink{{SinkDuckDB, "outliers.duckdb"}, {SinkParquet, "parquet"}}
		return
	}
	for _, item := range n.items {
		if !item.has(mapping) {
			continue
		}
		duckdb, parquet := item.get(SinkDuckDB), item.get(SinkParquet)
		switch {
		case duckdb != nil && parquet != nil:
			b.refuse(parquet.head, "stands in one item with duckdb; begin a new item of the list with - before it")
		case duckdb != nil:
			b.sink(duckdb, SinkDuckDB)
		case parquet != nil:
			b.sink(parquet, SinkParquet)
		case len(item.entries) == 0:
			b.refuse(item, "is empty, but wants a mapping with duckdb or parquet")
		}
	}
}

// sink adds a sink whose path stays in the data folder, apart from the others.
func (b *builder) sink(n *node, kind string) {
	if !n.has(text, whole, number) {
		return
	}
	path := filepath.Clean(n.text)
	first, _, _ := strings.Cut(filepath.ToSlash(path), "/")
	switch {
	case !filepath.IsLocal(path) || path == "." || strings.ContainsRune(path, 0):
		b.refuseWithHint(n, "move the data folder itself with `data`", "the path has to lead to a place inside the data folder")
		return
	case first == "state":
		b.refuse(n, "the folder state inside the data folder is not for sinks")
		return
	}
	for _, other := range b.cfg.Sinks {
		switch {
		case other.Kind == kind:
			b.refuse(n.head, "there is a %s sink already", kind)
			return
		case within(path, other.Path) || within(other.Path, path):
			b.refuse(n, "the path overlaps with that of the %s sink", other.Kind)
			return
		}
	}
	b.cfg.Sinks = append(b.cfg.Sinks, Sink{Kind: kind, Path: path})
}

// within reports whether path is folder or lies inside it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+string(filepath.Separator))
}
