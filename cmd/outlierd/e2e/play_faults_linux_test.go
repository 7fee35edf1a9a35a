package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// begins records an outage. The returned function ends it.
func (p *play) begins(what string) (ends func()) {
	p.note("%s: starts", what)
	p.mu.Lock()
	defer p.mu.Unlock()
	i := len(p.outages)
	p.outages = append(p.outages, outage{what: what, span: span{from: time.Now()}})
	return func() {
		p.note("%s: ends", what)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.outages[i].to = time.Now()
	}
}

// hadOutage reports whether there was an outage of a kind since a time; "" for any kind.
func (p *play) hadOutage(since time.Time, kind string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.outages {
		if strings.HasPrefix(t.what, kind) && (t.to.IsZero() || t.to.After(since)) {
			return true
		}
	}
	return false
}

// faults causes outages of the network, the disk and sinks.
func (p *play) faults(ctx context.Context, random *rand.Rand) {
	kinds := []func(*rand.Rand) (string, func() error, func() error){
		p.refusedConnections, p.resetConnections, p.unreliable, p.unreliable, p.fullDisk, p.fileSizeLimit, p.lockedState,
		p.replacedFile, p.replacedFolder, p.lockedFile, p.noSink,
	}
	for sleep(ctx, time.Duration(random.ExpFloat64()*float64(p.scale))) {
		what, break_, repair := kinds[random.IntN(len(kinds))](random)
		if what == "" {
			continue
		}
		ends := p.begins(what)
		err := break_()
		if err == nil {
			sleep(ctx, time.Duration((0.2+random.ExpFloat64())*float64(p.scale)))
			err = p.retry(repair)
		} else {
			p.note("%s: %v", what, err)
			err = nil
		}
		ends()
		if err != nil {
			p.Errorf("%s cannot be repaired: %v", what, err)
			return
		}
	}
}

// retry calls repair until it succeeds, for about a second.
func (p *play) retry(repair func() error) (err error) {
	for range 100 {
		if err = repair(); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func (p *play) refusedConnections(*rand.Rand) (string, func() error, func() error) {
	return "network: connections are refused", func() error { p.proxy.down(false); return nil }, p.proxy.up
}

func (p *play) resetConnections(*rand.Rand) (string, func() error, func() error) {
	return "network: connections are reset", func() error { p.proxy.down(true); return nil }, p.proxy.up
}

// unreliable is a network that disturbs some of the calls.
func (p *play) unreliable(random *rand.Rand) (string, func() error, func() error) {
	faulty := 0.05 + 0.4*random.Float64()
	set := func(faulty float64) func() error {
		return func() error { p.proxy.set(func() { p.proxy.faulty = faulty }); return nil }
	}
	return fmt.Sprintf("network: %.0f %% of the calls are disturbed", 100*faulty), set(faulty), set(0)
}

// fullDisk leaves little or no space: less than the program needs to buy.
func (p *play) fullDisk(random *rand.Rand) (string, func() error, func() error) {
	if p.disk == "" {
		return "", nil, nil
	}
	left := []int64{0, 16 << 10, 200 << 10, 2 << 20, 40 << 20, 200 << 20}[random.IntN(6)]
	size := func(size string) error { return unix.Mount("tmpfs", p.disk, "tmpfs", unix.MS_REMOUNT, size) }
	return fmt.Sprintf("disk: %d KiB are left", left>>10), func() error {
		var st unix.Statfs_t
		if err := unix.Statfs(p.disk, &st); err != nil {
			return err
		}
		used := int64(st.Blocks-st.Bfree) * st.Bsize
		return size(fmt.Sprintf("size=%d", used+left+st.Bsize))
	}, func() error { return size(roomy) }
}

// fileSizeLimit lets no file of the program grow beyond a size.
func (p *play) fileSizeLimit(random *rand.Rand) (string, func() error, func() error) {
	p.mu.Lock()
	pid := p.pid
	p.mu.Unlock()
	if pid == 0 {
		return "", nil, nil
	}
	most := uint64(1) << (12 + random.IntN(10))
	set := func(most uint64) func() error {
		return func() error {
			err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: unix.RLIM_INFINITY}, nil)
			if err == unix.ESRCH {
				return nil // it was killed
			}
			return err
		}
	}
	return fmt.Sprintf("disk: no file grows beyond %d KiB", most>>10), set(most), set(unix.RLIM_INFINITY)
}

const lockedByUs = "disk: the state is locked by another process"

// lockedState holds the write lock of the state, as a command does during a long write.
func (p *play) lockedState(random *rand.Rand) (string, func() error, func() error) {
	var db *sql.DB
	return lockedByUs, func() (err error) {
		if db, err = sql.Open("sqlite", filepath.Join(p.data, "state", "state.db")); err != nil {
			return err
		}
		db.SetMaxOpenConns(1)
		_, err = db.Exec(`PRAGMA busy_timeout = 2000; BEGIN IMMEDIATE`)
		if err != nil {
			return errors.Join(err, db.Close())
		}
		if random.IntN(4) == 0 { // longer than the program waits for it
			time.Sleep(min(12*time.Second, p.length/5))
		}
		return nil
	}, func() error { return db.Close() }
}

// replace exchanges a file or folder of a sink with something else.
func (p *play) replace(what, path string, make func(string) error) (string, func() error, func() error) {
	other := filepath.Join(p.dir, "disk", "other")
	exchange := func() error {
		return unix.Renameat2(unix.AT_FDCWD, other, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
	}
	return what, func() error {
			if err := make(other); err != nil {
				return err
			}
			if err := exchange(); err != nil {
				os.RemoveAll(other)
				return err
			}
			return nil
		}, func() error {
			if err := exchange(); err != nil {
				return err
			}
			return os.RemoveAll(other)
		}
}

func (p *play) replacedFile(*rand.Rand) (string, func() error, func() error) {
	return p.replace("sink duckdb: a folder is in its place", p.published(), func(other string) error {
		return os.MkdirAll(filepath.Join(other, "in the way"), 0o755)
	})
}

func (p *play) replacedFolder(*rand.Rand) (string, func() error, func() error) {
	return p.replace("sink parquet: a file is in its place", filepath.Join(p.data, "parquet"), func(other string) error {
		return os.WriteFile(other, nil, 0o644)
	})
}

// lockedFile locks the DuckDB file that the program writes, as another process would.
func (p *play) lockedFile(*rand.Rand) (string, func() error, func() error) {
	var file *os.File
	return "sink duckdb: its file is locked", func() (err error) {
		file, err = os.OpenFile(filepath.Join(p.data, "state", "warehouse.duckdb"), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		lock := func() error {
			return unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		}
		if err := p.retry(lock); err != nil {
			file.Close()
			return err
		}
		return nil
	}, func() error { return file.Close() }
}

// noSink locks the DuckDB file and replaces the Parquet folder.
func (p *play) noSink(random *rand.Rand) (string, func() error, func() error) {
	_, lock, unlock := p.lockedFile(random)
	_, replace, restore := p.replacedFolder(random)
	return "sinks: neither can be used", func() error {
			if err := lock(); err != nil {
				return err
			}
			if err := replace(); err != nil {
				unlock()
				return err
			}
			return nil
		}, func() error {
			if err := restore(); err != nil {
				return err
			}
			return unlock()
		}
}

// clocks lets the service's clock jump by minutes, hours and a month.
func (p *play) clocks(ctx context.Context, random *rand.Rand) {
	const month = 30 * 24 * time.Hour
	skews := []time.Duration{0, 0, 0, 3 * time.Minute, -8 * time.Minute, time.Hour, -20 * time.Hour, month, -month}
	for sleep(ctx, time.Duration((0.5+random.ExpFloat64())*3*float64(p.scale))) {
		skew := skews[random.IntN(len(skews))]
		p.note("clock of the service: %v off", skew)
		p.proxy.set(func() { p.proxy.skew = skew })
	}
	p.proxy.set(func() { p.proxy.skew = 0 })
}

// put replaces a file atomically.
func (p *play) put(name, text string) {
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		p.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		p.Fatal(err)
	}
}

// edit changes the job file.
func (p *play) edit(change func(*playFile)) {
	p.mu.Lock()
	change(&p.file)
	p.cap = max(p.cap, p.file.perDay)
	file := p.file
	p.mu.Unlock()
	p.note("jobs.yaml: %+v", file)
	p.put("jobs.yaml", file.text(p, p.url))
}

// edits changes the job file, truncates it, and lets it name another service.
func (p *play) edits(ctx context.Context, random *rand.Rand) {
	for keys := 1; sleep(ctx, time.Duration((0.3+random.ExpFloat64())*3*float64(p.scale))); {
		switch random.IntN(9) {
		case 0, 1:
			charged := int(p.service.Books().Total.Spent())
			p.edit(func(f *playFile) { f.perDay = max(70, charged+20+random.IntN(400)) })
		case 2, 3:
			p.edit(func(f *playFile) { f.pages, f.top, f.read = 1+random.IntN(3), 1+random.IntN(8), 1+random.IntN(3) })
		case 4:
			p.edit(func(f *playFile) { f.even = !f.even })
		case 5:
			p.temporaryEdit(ctx, random, "jobs.yaml: truncated", func() {
				text := p.file.text(p, p.url)
				p.put("jobs.yaml", text[:random.IntN(len(text))])
			})
		case 6:
			p.temporaryEdit(ctx, random, "jobs.yaml: another service and its key", func() {
				p.put("jobs.yaml", p.file.text(p, p.elsewhere)) // before the key: the program uses a key that changes alone
				p.put("key.txt", otherKey)
			})
		default:
			p.newKey(ctx, random, fmt.Sprintf("key-%d", keys))
			keys++
		}
	}
}

// temporaryEdit makes an edit and soon reverts it.
func (p *play) temporaryEdit(ctx context.Context, random *rand.Rand, what string, edit func()) {
	ends := p.begins(what)
	edit()
	sleep(ctx, time.Duration((0.1+random.ExpFloat64()/2)*float64(p.scale)))
	p.put("key.txt", p.proxy.key)
	p.edit(func(*playFile) {})
	ends()
}

// newKey changes the key of the service some time before or after that in the file.
func (p *play) newKey(ctx context.Context, random *rand.Rand, key string) {
	ends := p.begins("key: " + key)
	steps := []func(){func() { p.proxy.set(func() { p.proxy.key = key }) }, func() { p.put("key.txt", key) }}
	first := random.IntN(2)
	steps[first]()
	sleep(ctx, time.Duration(random.Float64()*float64(p.scale)/2))
	steps[1-first]()
	ends()
}
