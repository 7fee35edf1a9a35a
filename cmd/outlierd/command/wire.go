package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/outlier/simulator"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/bucket"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/iceberg"
	"outlierd/sinks/parquet"
	"outlierd/sinks/warehouse"
	"outlierd/sync/engine"
	"outlierd/sync/forgotten"
	"outlierd/sync/job"
	"outlierd/sync/load"
	"outlierd/sync/metrics"
	"outlierd/sync/notify"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/state"
	"outlierd/sync/store"
	"outlierd/sync/trace"
	"outlierd/sync/yamltree"
)

// program is an engine with its dependencies.
type program struct {
	Engine  *engine.Engine
	env     lookup
	watcher *notify.Watcher  // puts events in the outbox; nil if the job file has no target
	metrics *metrics.Metrics // nil if the job file has no daemon.listen
	tracer  *trace.Tracer    // sends traces of runs; nil if the environment names no collector
	memory  int64            // the most for DuckDB's buffers; 0 for its default
	closers []func() error

	daemon  *serve.Client              // of the process that holds the state folder; nil if this one does
	ordered atomic.Pointer[string]     // the run that a command waits for, once it is recorded; nil for none
	server  *serve.Server              // answers other commands; nil in all commands but up
	inUse   atomic.Pointer[job.Config] // the engine's, for other goroutines; nil except in up
}

// mode is what a command does with the state.
type mode int

const (
	toRead   mode = iota // reads records, beside any process; empty ones if no job has run
	toChange             // changes records, itself or through the daemon that holds the state
	toBuy                // makes calls, too
	toRepair             // changes what no other process may use meanwhile; the state must exist
	toServe              // is the daemon
)

// with opens the program in a mode while work runs.
func (g *globals) with(ctx context.Context, config *job.Config, m mode, work func(*program) error) (err error) {
	p, err := g.openProgram(ctx, config, m, g.logger())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if m == toBuy {
		n, err := newNotifier(p, g.world.env)
		if err != nil {
			return err
		}
		defer n.Finish(ctx)
	}
	return work(p)
}

// inSession returns the RunE of a command that works with the state; see [globals.withState].
func (g *globals) inSession(m mode, work func(ctx context.Context, p *program, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		return g.withState(c.Context(), m, func(ctx context.Context, p *program) error { return work(ctx, p, args) })
	}
}

// withState reads the job file, which needs a key only to make calls, and opens the program in a mode while work runs.
func (g *globals) withState(ctx context.Context, m mode, work func(context.Context, *program) error) error {
	load := g.loadToRead
	if m == toBuy {
		load = g.loadForOnce
	}
	config, err := load()
	if err != nil {
		return err
	}
	return g.with(ctx, config, m, func(p *program) error { return work(ctx, p) })
}

// openProgram opens the program in a mode.
func (g *globals) openProgram(ctx context.Context, config *job.Config, m mode, log *slog.Logger) (p *program, err error) {
	defer func() {
		if err != nil {
			p, err = nil, errors.Join(err, p.Close())
		}
	}()
	var daemon *serve.Client
	if m == toChange || m == toBuy {
		if daemon, err = g.world.findDaemon(ctx, config); err != nil {
			return &program{}, err
		}
	}
	if m != toRead && daemon == nil {
		p = &program{Engine: &engine.Engine{Config: config, Log: log, IDs: seedsOnce(config)}, env: g.world.env}
		err = p.openAlone(ctx, g, m)
		held, is := errors.AsType[*store.HeldError](err)
		if !is || m == toRepair || m == toServe {
			return p, err
		}
		var failed error
		if daemon, failed = g.world.awaitDaemon(ctx, config, held); daemon == nil {
			return p, errors.Join(err, failed)
		}
	}
	p = &program{Engine: &engine.Engine{Config: config, Log: log, IDs: seedsOnce(config)}, env: g.world.env, daemon: daemon}
	return p, p.openRecords(ctx)
}

// openAlone opens the program as the only one that uses the state. The state comes first: it takes the lock, without
// which nothing else may be changed. A daemon listens from then on.
func (p *program) openAlone(ctx context.Context, g *globals, m mode) (err error) {
	config, folder := p.Engine.Config, stateFolder(p.Engine.Config)
	if m == toBuy || m == toServe {
		if config, err = config.RunCommands(ctx); err != nil {
			return err
		}
		p.Engine.Config = config
	}
	if isMissing(folder) && m == toRepair {
		return &store.NoStateError{Dir: folder}
	}
	if err := refuseLostState(ctx, config, g.world.env); err != nil {
		return err
	}
	if p.memory, err = duckdbMemory(g.world.env); err != nil {
		return err
	}
	if err := p.openState(ctx, folder); err != nil {
		return err
	}
	if m == toServe {
		p.Engine.IDs = seeds(config)
		p.serveCommands(ctx, g.world.listen)
	}
	if !g.world.unread {
		if err := p.addLine(); err != nil {
			return err
		}
	}
	if m == toBuy || m == toServe {
		return p.openClient(g.world.network, func() (outlier.Key, error) { return readKey(g.config, g.world.env, p.Engine.Config.Service) })
	}
	return nil
}

// openRecords opens the records for reading, with what forecasts need.
func (p *program) openRecords(ctx context.Context) error {
	if err := p.openReading(ctx); err != nil {
		return err
	}
	if err := warnUnfinishedErasure(p.Engine.Store, p.Engine.Log); err != nil {
		return err
	}
	return p.openPace()
}

// isMissing reports whether there is nothing at a path.
func isMissing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// refuseLostState returns an error if there is no state, and a copy shows answers: with a new state it would look as if
// nothing had been spent. A copy that cannot be read now is not an error here, and a lake has the rows of each state
// apart.
func refuseLostState(ctx context.Context, config *job.Config, env lookup) error {
	for _, s := range config.Sinks {
		if s.Lake != nil || !isMissing(stateFolder(config)) {
			continue
		}
		shown := openPublished(ctx, config, s, env, "", false).Has.Answers
		if shown > 0 && isMissing(stateFolder(config)) { // no other process has created it meanwhile
			return &load.AheadError{Sink: s.Kind, Mark: shown}
		}
	}
	return nil
}

// readKey reads the key again from the job file, unless the file now names another address: the key of
// one service must never be sent to another. An address has no password ([outlier.CheckURL]), so the
// error may contain both addresses. A key from a command stays until the file is used anew.
func readKey(file string, env lookup, used job.Service) (outlier.Key, error) {
	config, err := job.LoadForOnce(file, env)
	if mistakes, ok := errors.AsType[yamltree.Mistakes](err); ok {
		err = errors.New(mistakes[0].String()) // short enough for a log line; the first one often causes the others
	}
	if err != nil {
		return outlier.Key{}, err
	}
	if address := used.URL; config.Service.URL != address {
		return outlier.Key{}, fmt.Errorf("%s: service.url is now %s, and this process uses %s; "+
			"address and key belong together, so neither is changed. Restart outlierd to use the new ones, "+
			"with another data folder: this one belongs to %s",
			file, config.Service.URL, address, address)
	}
	if config.Service.Key.IsZero() {
		return used.Key, nil
	}
	return config.Service.Key, nil
}

// openState opens only the state, which is enough for some commands.
func (p *program) openState(ctx context.Context, folder string) (err error) {
	// Readers of other users need access to this folder; private files are in subfolders.
	if err := os.MkdirAll(p.Engine.Config.Data, 0o755); err != nil {
		return explainUnwritable(fmt.Errorf("create the data folder: %w", err), filepath.Dir(p.Engine.Config.Data))
	}
	with := stateOptions(p.Engine.Config)
	with.Log = p.Engine.Log
	p.watcher, p.metrics = notify.NewWatcher(p.Engine.Config, p.Engine.Log),
		metrics.New(p.Engine.Config, version(), database.Version())
	with.Began = func(tx *store.Tx, r runs.Run) error {
		p.ordered.Store(&r.ID)
		return p.watcher.RunBegan(tx, r)
	}
	with.Ended = func(tx *store.Tx, r runs.Run, superseded bool) error {
		p.metrics.RunEnded(r, superseded)
		p.tracer.RunEnded(r, superseded)
		return p.watcher.RunEnded(tx, r, superseded)
	}
	with.Apply = p.Engine.Apply
	p.Engine.Store, err = state.Open(ctx, folder, with)
	if err != nil {
		return explainUnwritable(err, p.Engine.Config.Data)
	}
	warnOfRoot(p.Engine.Log, p.Engine.Config.Data)
	if err := warnUnfinishedErasure(p.Engine.Store, p.Engine.Log); err != nil {
		return errors.Join(err, p.Engine.Store.Close())
	}
	p.tracer = trace.New(trace.Options{Store: p.Engine.Store, Env: p.env, Version: version(),
		Redact: p.Engine.Config.Service.Key.Redact, Log: p.Engine.Log})
	p.closers = append(p.closers, p.Engine.Store.Close, p.tracer.Close)
	return p.Engine.Settle()
}

// warnUnfinishedErasure logs that the tables may still have what a stopped 'outlierd forget' was to erase.
func warnUnfinishedErasure(seen *state.Store, log *slog.Logger) error {
	n, err := forgotten.Unfinished(seen.DB)
	if n > 0 {
		log.Warn("erasure unfinished: run 'outlierd forget' again with the same ids", "ids", n)
	}
	return err
}

// warnErased is [warnUnfinishedErasure] for a command that reads tables and needs no state.
func warnErased(ctx context.Context, g *globals, config *job.Config) error {
	seen, err := peek(ctx, config)
	if err != nil {
		return nil // it is missing, another user's, or damaged, which does not keep anybody from reading tables
	}
	return errors.Join(warnUnfinishedErasure(seen, g.logger()), seen.Close())
}

// published returns the path of the file that readers open; "" without a duckdb sink.
func published(config *job.Config) string {
	i := slices.IndexFunc(config.Sinks, func(s job.Sink) bool { return s.Kind == job.SinkDuckDB })
	if i < 0 {
		return ""
	}
	return sinkPath(config, config.Sinks[i])
}

// explainUnreadable adds the remedy for commands that only look; see [explainUnwritable].
func explainUnreadable(err error, folder string) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w; user %d needs read access to %s and everything in it; %s", err, os.Getuid(), folder, readTables)
}

// readTables is what everybody can do who has only the published tables.
const readTables = `the published tables can be read without it, as with: outlierd sql "from ops.runs"`

// Close closes everything, in the reverse order of opening.
func (p *program) Close() error {
	var errs []error
	for len(p.closers) > 0 {
		last := len(p.closers) - 1
		errs = append(errs, p.closers[last]())
		p.closers = p.closers[:last]
	}
	return errors.Join(errs...)
}

// duckdbMemory returns the maximum memory for DuckDB's buffers, if set in the environment.
func duckdbMemory(env lookup) (int64, error) {
	text, _ := env(warehouse.MemoryVariable)
	if text == "" {
		return 0, nil
	}
	memory, err := job.ParseSize(text)
	if err != nil || memory < 32e6 {
		return 0, fmt.Errorf("%s must be a size of at least 32MB, such as 512MB or 2GB, got %q", warehouse.MemoryVariable, text)
	}
	return memory, nil
}

// addLine adds the warehouse and its copies. They open their files and places when they are used, and the engine then
// reports the error.
func (p *program) addLine() error {
	config := p.Engine.Config // a reload changes none of the settings used here, but for the tables
	rows := warehouse.New(warehouseOptions(config, p.memory, p.Engine.Log))
	p.closers = append(p.closers, rows.Close)
	p.Engine.Line.Warehouse, p.Engine.Line.Observe = rows, p.metrics.Observe
	p.Engine.Line.Tables = func() []job.Table { return p.Engine.Config.Tables }
	p.Engine.Line.Advise = func(sink string, err error) error { return adviseOnSink(config, sink, err) }
	for _, s := range config.Sinks {
		c, err := p.newCopy(s, rows)
		if err != nil {
			return err
		}
		p.closers = append(p.closers, c.Close)
		p.Engine.Line.Copies = append(p.Engine.Line.Copies, c)
	}
	return nil
}

// adviseOnSink adds what to do to an error of a sink, unless its files are elsewhere.
func adviseOnSink(config *job.Config, sink string, err error) error {
	if sink == job.SinkIceberg {
		return err
	}
	return explainUnwritable(err, config.Data)
}

// warehouseOptions returns the options of a job file's warehouse.
func warehouseOptions(config *job.Config, memory int64, log *slog.Logger) warehouse.Options {
	folder := stateFolder(config)
	w := warehouse.Options{
		Path: filepath.Join(folder, warehouse.Name), Temp: filepath.Join(folder, "tmp"), Memory: memory, Log: log,
		Tables: schema.AllTables(),
	}
	for _, s := range config.Sinks {
		switch path := sinkPath(config, s); s.Kind {
		case job.SinkDuckDB:
			w.Older = append(w.Older, warehouse.Published(path))
		case job.SinkParquet:
			w.Older = append(w.Older, parquet.Older(path, schema.Tables()))
		}
	}
	return w
}

// newCopy returns a copy of the warehouse.
func (p *program) newCopy(s job.Sink, rows *warehouse.Warehouse) (sinks.Copy, error) {
	path := sinkPath(p.Engine.Config, s)
	switch {
	case s.Lake != nil:
		return p.newLake(s, rows)
	case s.Kind == job.SinkDuckDB:
		return duckdb.New(rows, path, filepath.Join(stateFolder(p.Engine.Config), "tmp")), nil
	}
	files := parquet.New(rows, parquet.Options{Dir: path})
	if s.Bucket == "" {
		return files, nil
	}
	return bucket.Open(files, path, bucketOf(p.Engine.Config, s, p.env)), nil
}

// sinkPath returns the path of a sink that readers open; for a lake, its bucket or folder, or its
// namespace.
func sinkPath(config *job.Config, s job.Sink) string {
	if s.Lake != nil {
		return cmp.Or(s.Lake.Warehouse, "namespace "+s.Lake.Namespace)
	}
	return filepath.Join(config.Data, s.Path)
}

// newLake returns the tables of a lake, to which other state folders may write too.
func (p *program) newLake(s job.Sink, rows *warehouse.Warehouse) (sinks.Copy, error) {
	instance, err := p.Engine.Store.NamedInstance()
	o := lakeOf(p.Engine.Config, s, instance, p.env)
	o.Opened = func() error { return p.Engine.Store.Sinks.AddPlace(s.Kind, s.Lake.Place()) }
	return iceberg.New(rows, o), err
}

// lakeOf returns the options for a lake; instance identifies the state folder that writes to it.
func lakeOf(config *job.Config, s job.Sink, instance string, env lookup) iceberg.Options {
	return iceberg.Options{Catalog: s.Lake.Catalog, Warehouse: s.Lake.Warehouse, Namespace: s.Lake.Namespace,
		Staging: filepath.Join(stateFolder(config), "lake"), Instance: instance, Tables: schema.AllTables(), Env: env}
}

// bucketOf returns the options of the bucket that a sink is copied to.
func bucketOf(config *job.Config, s job.Sink, env lookup) bucket.Options {
	return bucket.Options{Address: s.Bucket, Record: bucketRecord(config), Env: env}
}

// bucketRecord returns the path of the file that records what was copied to buckets.
func bucketRecord(config *job.Config) string {
	return filepath.Join(stateFolder(config), "bucket.json")
}

// hideAuthors makes the journal remove data of comment authors according to privacy.comment_authors.
func (p *program) hideAuthors() (err error) {
	switch p.Engine.Config.CommentAuthors {
	case job.AuthorsHash:
		p.Engine.Client.Pseudonym, err = forgotten.Pseudonyms(p.Engine.Store.DB)
	case job.AuthorsDrop:
		p.Engine.Client.Pseudonym = func(string) string { return "" }
	}
	return err
}

// openClient creates the client, the only component that talks to the service. rekey reads the key
// again, because it may have changed; the simulator's never does.
func (p *program) openClient(network func(caFile string) (http.RoundTripper, error),
	rekey func() (outlier.Key, error)) (err error) {
	if err := p.openPace(); err != nil {
		return explainUnwritable(err, p.Engine.Config.Data)
	}
	if forgotten := p.Engine.Store.Forgotten; !forgotten.Empty() {
		p.Engine.Client.Forgotten = forgotten.Mentions
	}
	if err := p.hideAuthors(); err != nil {
		return err
	}
	if p.Engine.Config.Service.Simulated() {
		return nil
	}
	if err := checkTrust(p.Engine.Config.Service); err != nil {
		return err
	}
	p.Engine.Rekey = rekey
	p.Engine.Client.Transport, err = network(p.Engine.Config.Service.CAFile)
	return err
}

// openLimiter opens the pace that processes with this state folder have learned.
func openLimiter(config *job.Config) (*pace.Limiter, error) {
	service := config.Service
	return pace.Open(service.Limit, pace.Options{
		Path: filepath.Join(stateFolder(config), "pace.json"), Owner: service.Key.Fingerprint(), Share: service.Share,
		MaxWait: service.MaxWait,
	})
}

// openPace creates a client with pace, key and simulator, but without a transport.
func (p *program) openPace() (err error) {
	service := p.Engine.Config.Service
	if p.Engine.Pace, err = openLimiter(p.Engine.Config); err != nil {
		return err
	}
	p.Engine.Client = &outlier.Client{URL: service.URL, Key: service.Key, Pacer: p.Engine.Pace,
		UserAgent: "outlierd/" + version(), Arrays: service.Arrays}
	if service.Simulated() { // with the configured limit, because a faster clock would make every reset wrong
		simulated := simulator.New(simulator.Options{Seed: 1, Key: "simulated", Limit: service.Limit.Requests,
			Window: service.Limit.Window})
		p.Engine.Client.Arrays = outlier.ArraysRepeat
		p.Engine.Client.URL, p.Engine.Client.Transport = "http://localhost", simulated.Transport()
		p.Engine.Client.Key, err = outlier.NewKey("simulated")
	}
	return err
}

// The values of --log-level and --log-format.
var logLevels, logFormats = []string{"debug", "info", "warn", "error"}, []string{"text", "json", "auto"}

// logger returns a logger to standard error: text for people, JSON for machines.
func (g *globals) logger() *slog.Logger {
	if g.logs != nil {
		return g.loggerTo(g.logs)
	}
	return g.loggerTo(g.out.block.Above(g.world.err))
}

// loggerTo returns a logger that writes to w what is meant for standard error.
func (g *globals) loggerTo(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(g.logLevel)) // it is one of logLevels
	with := &slog.HandlerOptions{Level: level, ReplaceAttr: formatAttrs(g.out.zone)}
	if g.logFormat == "text" || g.logFormat == "auto" && term.Is(g.world.err) {
		return slog.New(slog.NewTextHandler(w, with))
	}
	return slog.New(slog.NewJSONHandler(w, with))
}

// formatAttrs formats times in a zone (nil: unchanged), and omits empty attributes of a log line.
func formatAttrs(zone *time.Location) func([]string, slog.Attr) slog.Attr {
	return func(_ []string, a slog.Attr) slog.Attr {
		switch kind := a.Value.Kind(); {
		case kind == slog.KindString && a.Value.String() == "", kind == slog.KindTime && a.Value.Time().IsZero():
			return slog.Attr{}
		case kind == slog.KindTime && zone != nil:
			a.Value = slog.TimeValue(a.Value.Time().In(zone))
		}
		return a
	}
}

// peek opens a state for reading.
func peek(ctx context.Context, config *job.Config) (*state.Store, error) {
	folder := stateFolder(config)
	seen, err := state.Peek(ctx, folder, stateOptions(config))
	if errors.Is(err, fs.ErrNotExist) && !isMissing(published(config)) {
		return nil, fmt.Errorf("%s is missing: restore it from a backup; %s", folder, readTables)
	}
	return seen, explainUnreadable(err, folder)
}

// openReading opens the state for reading, or an empty one if the data folder has no state.
func (p *program) openReading(ctx context.Context) error {
	seen, err := peek(ctx, p.Engine.Config)
	if errors.Is(err, fs.ErrNotExist) {
		return p.temporaryStore(ctx)
	}
	if err != nil {
		return err
	}
	p.Engine.Store = seen
	p.closers = append(p.closers, seen.Close)
	return nil
}

// temporaryStore opens an empty state in a temporary folder, which Close removes.
func (p *program) temporaryStore(ctx context.Context) error {
	temp, err := systemTemporary("outlierd-state-*")
	if err != nil {
		return err
	}
	p.closers = append(p.closers, temp.Close)
	p.Engine.Store, err = state.Open(ctx, temp.path, stateOptions(p.Engine.Config))
	if err != nil {
		return err
	}
	p.closers = append(p.closers, p.Engine.Store.Close)
	return nil
}

// stateOptions returns the options of the state for a configuration.
func stateOptions(config *job.Config) state.Options {
	return state.Options{
		Service: config.Service.URL, Location: config.Timezone, Renews: config.Budget.Renews,
		Version: version(),
	}
}
