package job

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // time zones must not depend on the machine
	"unicode/utf8"

	"outlierd/internal/lazyregexp"
	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/yamltree"
)

func readService(c *Config, n *yamltree.Node) {
	s := &c.Service
	if s.CAFile != "" {
		s.CAFile = absolutePath(c, n.Get("ca_file"), s.CAFile)
	}
	readURL(c, n.Get("url"))
	checkKey(c, n)
	checkLimit(c, n.Get("limit"))
	readPrices(c, n.Get("prices"))
}

// readPrices reads the prices that differ from the documented ones. The schema has checked their names.
func readPrices(c *Config, n *yamltree.Node) {
	c.Service.Prices = outlier.Prices{}
	for _, e := range n.Pairs() {
		if price := readCredits(e.Value); price != nil {
			c.Service.Prices[e.Key.Text] = *price
		}
	}
}

func readURL(c *Config, n *yamltree.Node) {
	c.Service.URL = ""
	if !n.Has(yamltree.Text) {
		return
	}
	if n.Text == Simulator {
		c.Service.URL = Simulator
		return
	}
	if strings.Trim(n.Text, " \t\r\n\"'") != n.Text {
		n.Refuse("%s: the address has quotes, blanks or a line end around it", n.Shown())
		return
	}
	u, err := outlier.CheckURL(n.Text, c.Service.AllowHTTP)
	if err != nil {
		n.RefuseQuoting(err.Error())
		return
	}
	c.Service.URL = u.String()
}

// checkKey refuses a key for the simulator, and a service without one.
func checkKey(c *Config, service *yamltree.Node) {
	n, s := service.Get("key"), &c.Service
	switch {
	case s.Simulated() && !s.Key.IsZero():
		n.RefuseWithHint("leave key out, or give the service's url",
			"sim:// takes no key, so that simulated rows never mix with bought ones")
	case !isPaid(c) || !s.Key.IsZero():
	case n == nil && c.needs.service:
		service.Missing("key", schema().Definitions["service"].SuggestKey("key"))
	case n.Has(yamltree.Text):
		n.Refuse("%s: the key is empty", n.Shown())
	}
}

// checkLimit warns of a limit above the service's, or sets the default.
func checkLimit(c *Config, n *yamltree.Node) {
	limit := &c.Service.Limit
	switch {
	case *limit == pace.Quota{} && c.Service.Simulated():
		*limit = simulatedLimit
	case *limit == pace.Quota{}:
		*limit = documentedLimit
	case isPaid(c) && limit.Time(1) < documentedLimit.Time(1):
		n.Warn(fmt.Sprintf("write %s, or leave limit out", documentedLimit),
			"%s is more than the service's limit of %s: it refuses calls until outlierd has learned its limit",
			*limit, documentedLimit)
	}
}

// The default limits: that of the service, and one for the simulator, which accepts any.
var (
	documentedLimit = pace.Quota{Requests: 10, Window: time.Minute}
	simulatedLimit  = pace.Quota{Requests: 600, Window: time.Minute}
)

// placeData finds the data folder.
func (b *builder) placeData(n *yamltree.Node) {
	folder := b.cfg.Data
	if override, _ := b.env("OUTLIERD_DATA"); override != "" {
		folder = override
	}
	b.cfg.Data = resolvePath(b.cfg, folder)
	mistake, hint := "", "rename the folder, or set data or OUTLIERD_DATA to another one"
	switch {
	case strings.HasPrefix(folder, "~"):
		mistake, hint = fmt.Sprintf(tildeMistake, strconv.Quote(folder)), tildeHint
	case strings.Contains(b.cfg.Data, "?"): // DuckDB puts .wal before it, as in an address
		mistake = "the folder's path must not contain a ?, got " + b.cfg.Data
	case !utf8.ValidString(b.cfg.Data): // DuckDB accepts no other path
		mistake = "the folder's path must be UTF-8, got " + strconv.Quote(b.cfg.Data)
	default:
		return
	}
	at := cmp.Or(n, b.root)
	b.file.Report(at.Line, at.Column, "data: "+mistake, hint)
}

// checkBudget refuses caps that contradict each other.
func checkBudget(c *Config, n *yamltree.Node) {
	caps := &c.Budget
	atMost(n.Get("by_hand"), caps.PerMonth, "per_month")
	reserve := n.Get("reserve")
	switch {
	case caps.Reserve != nil && n.Get("per_month") == nil && !isPaid(c):
		reserve.Refuse("needs budget.per_month, which is missing")
	case caps.Reserve != nil && caps.PerMonth != nil && *caps.Reserve >= *caps.PerMonth:
		reserve.Refuse("must be less than per_month, got %s", reserve.Shown())
	}
}

// isPaid reports whether the service charges money.
func isPaid(c *Config) bool { return c.Service.URL != "" && !c.Service.Simulated() }

func readSinks(c *Config, n *yamltree.Node) {
	if n == nil {
		c.Sinks = []Sink{{Kind: SinkDuckDB, Path: "outliers.duckdb"}, {Kind: SinkParquet, Path: parquetFolder}}
		return
	}
	kinds := schema().Definitions["sink"].Choices()
	for _, item := range n.Items {
		key, value := item.Choice(kinds)
		switch {
		case key == nil:
		case slices.ContainsFunc(c.Sinks, func(other Sink) bool { return other.Kind == key.Text }):
			key.Refuse("only one %s sink is allowed", key.Text)
		case key.Text == SinkIceberg:
			readLake(c, value)
		default:
			readSink(c, value, key.Text)
		}
	}
}

// bucketAddress matches the address of a bucket, or of a container of Azure, with an optional prefix,
// and no keys or parameters. A prefix has no characters that an address or a pattern would give a
// meaning.
var bucketAddress = lazyregexp.New(`^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]|az://[a-z0-9](-?[a-z0-9]){2,62})` +
	`(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*/?$`)

// BucketAddress returns the address of a bucket with an optional prefix, s3://bucket/prefix or
// az://container/prefix, or "" if the text is no such address.
func BucketAddress(text string) string {
	if !bucketAddress().MatchString(text) {
		return ""
	}
	return strings.TrimSuffix(text, "/")
}

// isAddress reports whether a text is an address, or has the key of one, rather than a path.
func isAddress(text string) bool {
	return strings.Contains(text, "://") || strings.Contains(text, "AccountKey=")
}

// checkBucket returns the address of a bucket, or "" for an address that cannot be used, which it refuses.
func checkBucket(c *Config, n *yamltree.Node, text string) string {
	bucket := BucketAddress(text)
	switch {
	case bucket == "":
		n.RefuseWithHint(
			"keys and the account come from the environment, such as AWS_ACCESS_KEY_ID or AZURE_STORAGE_ACCOUNT",
			"must be a folder, or an address like s3://bucket/prefix or az://container/prefix, with only letters, digits and . _ -")
	case strings.HasPrefix(bucket, "az://") && !hasAzure && c.needs.service:
		n.RefuseWithHint("build it with -tags azure, or use an official binary", "this program was built without Azure")
		return ""
	}
	return bucket
}

// readSink adds a sink whose path is inside the data folder and separate from the others.
func readSink(c *Config, n *yamltree.Node, kind string) {
	if !n.Has(yamltree.Text, yamltree.Whole, yamltree.Number) {
		return
	}
	text, bucket := n.Text, ""
	if kind == SinkParquet && isAddress(text) {
		if bucket = checkBucket(c, n, text); bucket == "" {
			return
		}
		text = parquetFolder
	}
	path := filepath.Clean(text)
	first, _, _ := strings.Cut(filepath.ToSlash(path), "/")
	switch {
	case strings.Contains(text, "://"): // cleaned, it would be a path; it may contain a key
		n.RefuseWithHint("only parquet can be copied to a bucket, as in parquet: "+
			"s3://bucket/prefix or az://container/prefix",
			"must be a path inside the data folder, got an address")
		return
	case strings.HasPrefix(path, "~"):
		n.RefuseWithHint("write a path inside the data folder, such as "+strings.TrimLeft(path, "~/"),
			tildeMistake, n.Shown())
		return
	case !filepath.IsLocal(path) || path == "." || strings.ContainsRune(path, 0):
		n.RefuseWithHint("move the data folder itself with `data`",
			"must be a path inside the data folder, got %s", n.Shown())
		return
	case first == "state":
		n.Refuse("must not be in the folder state, which is reserved")
		return
	case kind == SinkDuckDB && strings.Contains(path, "?"):
		n.Refuse("must not contain a ?, got %s", n.Shown())
		return
	}
	for _, other := range c.Sinks {
		if other.Lake == nil && (within(path, other.Path) || within(other.Path, path)) {
			n.Refuse("must not overlap with the path of the %s sink", other.Kind)
			return
		}
	}
	c.Sinks = append(c.Sinks, Sink{Kind: kind, Path: path, Bucket: bucket})
}

// readLake adds a sink of Iceberg tables. Mistakes do not quote an address, which may contain a password.
func readLake(c *Config, n *yamltree.Node) {
	if !n.Has(yamltree.Mapping) {
		return
	}
	if !hasIceberg {
		n.Key.Warn("build it with -tags iceberg", "this program was built without Iceberg: the sink is disabled")
	}
	catalog, warehouse := n.Get("catalog"), n.Get("warehouse")
	lake := &Lake{}
	readKeys(lake, schema().Definitions["lake"], n)
	kind, rest, hasKind := strings.Cut(lake.Catalog, "://")
	u, unread := url.Parse(lake.Catalog)
	isREST := hasKind && (kind == "http" || kind == "https")
	switch {
	case lake.Catalog == "": // refused by the schema
		return
	case !hasKind:
		lake.Catalog = absolutePath(c, catalog, lake.Catalog)
	case !isREST && kind != "postgres" && kind != "postgresql":
		catalog.Refuse("must be the path of a SQLite file, or begin with postgres://, https:// or http://")
	case unread != nil || rest == "" || u.Host == "":
		catalog.RefuseWithHint("write characters such as @ and / of a password as %40 and %2F",
			"cannot be read as an address")
	case isREST && u.User != nil:
		catalog.RefuseWithHint("set ICEBERG_REST_TOKEN or ICEBERG_REST_CREDENTIAL instead",
			"must not hold a user or a password")
	}
	switch {
	case lake.Warehouse == "" && !isREST:
		n.Key.Refuse("warehouse is missing: name a folder, or a bucket as in s3://bucket/prefix")
	case strings.HasPrefix(lake.Warehouse, "s3://"), !isREST && isAddress(lake.Warehouse):
		if lake.Warehouse = BucketAddress(lake.Warehouse); !strings.HasPrefix(lake.Warehouse, "s3://") {
			warehouse.RefuseWithHint("credentials come from the environment, such as AWS_ACCESS_KEY_ID",
				"must be a folder, or a bucket as in s3://bucket/prefix, with only letters, digits and . _ -")
		}
	case !isREST: // otherwise a name that the catalog knows
		lake.Warehouse = absolutePath(c, warehouse, lake.Warehouse)
	}
	c.Sinks = append(c.Sinks, Sink{Kind: SinkIceberg, Lake: lake})
}

// within reports whether path is folder or inside it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+string(filepath.Separator))
}

// A path that begins with ~ is refused, because only shells replace it by a home folder: the program would
// make a folder of that name.
const (
	tildeMistake = "must not begin with ~, which only a shell replaces, got %s"
	tildeHint    = "write the whole path, or ${HOME} in place of ~"
)

// absolutePath returns a path of the file, which n is or has, as an absolute path.
func absolutePath(c *Config, n *yamltree.Node, path string) string {
	if strings.HasPrefix(path, "~") {
		n.RefuseWithHint(tildeHint, tildeMistake, n.Shown())
	}
	return resolvePath(c, path)
}

// resolvePath returns a path relative to the folder of the job file as an absolute path.
func resolvePath(c *Config, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(c.Dir, path)
}

// MaxCredits is the maximum of an amount of credits, in the file and on command lines.
const MaxCredits outlier.Credits = 1_000_000_000 // as in the schema, which checks those of the file

// CheckCredits refuses an amount that no cap may have, in words that follow the name of a flag.
func CheckCredits(n int64) error {
	if n < 1 || n > int64(MaxCredits) {
		return fmt.Errorf("must be from 1 to %d, got %d", MaxCredits, n)
	}
	return nil
}

// readCredits returns an amount, or nil if n has none.
func readCredits(n *yamltree.Node) *outlier.Credits {
	if !n.Has(yamltree.Whole) {
		return nil
	}
	return new(outlier.Credits(valueOf[int](n)))
}
