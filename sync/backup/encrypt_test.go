package backup

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outlierd/internal/sealed"
	"outlierd/sync/state"
)

// Two identities of age, made for these tests, and their public keys.
const (
	ownIdentity   = "AGE-SECRET-KEY-1H24EPRHNUWF0LDKQ75N3LKL7NHJ3VAX2GGUDZUM24KKPF4YMX89QD96M4Q"
	ownKey        = "age1m8qq4a9jqpvawlcgdzsa968xlwex6fuy3ndjssdzggzspud4up3skcdsd6"
	otherIdentity = "AGE-SECRET-KEY-1PPD8VNUX3FJVVPRL0P34LHP4RM0JWVCD679ALHK7XSNVG9C0GRQQVDG2K2"
	otherKey      = "age16l5ve7d2d2vysd0leyhhxwjhqft9glut5tpk777tt4cfhat6gytq7pex5m"
)

func identity(t *testing.T, text string) *sealed.Identity {
	t.Helper()
	i, err := sealed.ReadIdentity(strings.NewReader("# made by age-keygen\n" + text + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// newState makes a state with a name, and returns its folder.
func newState(t *testing.T) (folder, name string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "state")
	s, err := state.Open(t.Context(), folder, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	name, err = s.NamedInstance()
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return folder, name
}

func writeTo(t *testing.T, to Place, from string, o Options) Backup {
	t.Helper()
	o.Temp = t.TempDir()
	b, err := Write(t.Context(), from, to, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// restoreName restores a backup and returns the name of the state in it.
func restoreName(t *testing.T, from Place, which Which) (name string, err error) {
	_, err = Restore(t.Context(), from, which, filepath.Join(t.TempDir(), "state"), state.Options{},
		func(s *state.Store, _ Backup) (err error) { name, err = s.Instance(); return err })
	return name, err
}

func TestOnlyARecipientRestores(t *testing.T) {
	from, name := newState(t)
	place := Folder(t.TempDir())
	plain := writeTo(t, place, from, Options{Keep: 5})
	made := writeTo(t, place, from, Options{Keep: 5, Recipients: []string{ownKey}})
	text, err := os.ReadFile(place.pathOf(made.File))
	if err != nil || bytes.Contains(text, []byte("SQLite format")) || !bytes.HasPrefix(text, []byte("age-encryption.org/v1")) {
		t.Fatalf("the stored file begins with %q (%v), want one of age", text[:min(len(text), 30)], err)
	}
	for _, c := range []struct {
		which Which
		want  string
	}{
		{Which{}, "it is encrypted, and no identity was given: pass the identity file"},
		{Which{Identity: identity(t, otherIdentity)}, "it is encrypted to another identity: pass the identity file"},
		{Which{File: "state-1.db"}, "has no backup \"state-1.db\", only " + plain.File + ", " + made.File},
	} {
		if _, err := restoreName(t, place, c.which); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("restore with %+v: %v, want %q", c.which, err, c.want)
		}
	}
	for _, which := range []Which{{Identity: identity(t, ownIdentity)}, {File: plain.File}, {File: plain.File, Identity: identity(t, otherIdentity)}} {
		if got, err := restoreName(t, place, which); got != name || err != nil {
			t.Errorf("restore with %+v: state %q (%v), want %q", which, got, err, name)
		}
	}
}

// TestEditedFilesAreNotRestored also gives them the name of their checksum, as somebody would who can write to the
// place.
func TestEditedFilesAreNotRestored(t *testing.T) {
	from, _ := newState(t)
	place := Folder(t.TempDir())
	made := writeTo(t, place, from, Options{Recipients: []string{ownKey, otherKey}})
	whole, err := os.ReadFile(place.pathOf(made.File))
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	for edit, text := range map[string][]byte{"cut": whole[:len(whole)-70_000], "flipped": flipped, "header": whole[:90], "empty": nil} {
		if err := os.WriteFile(place.pathOf(made.File), text, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, which := range []Which{{}, {Identity: identity(t, ownIdentity)}} {
			if _, err := Verify(t.Context(), place, which); err == nil || !strings.Contains(err.Error(), "does not match its checksum") {
				t.Errorf("%s: %v, want that the checksum differs", edit, err)
			}
		}
		forged := Folder(t.TempDir())
		sum, err := sumFile(place.pathOf(made.File))
		if err == nil {
			err = os.WriteFile(forged.pathOf(strings.Replace(made.File, made.Sum, sum, 1)), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if name, err := restoreName(t, forged, Which{Identity: identity(t, ownIdentity)}); err == nil {
			t.Errorf("%s with its checksum: restored state %q, want an error", edit, name)
		}
	}
}

// spoiling is a place that damages what is stored in it.
type spoiling struct{ Folder }

func (s spoiling) Put(ctx context.Context, path, name string) error {
	return errors.Join(s.Folder.Put(ctx, path, name), os.Truncate(s.pathOf(name), 5000))
}

// A backup that does not match its checksum removes no good backup.
func TestDamagedBackupKeepsEarlierBackup(t *testing.T) {
	from, name := newState(t)
	place := Folder(t.TempDir())
	writeTo(t, place, from, Options{Keep: 1})
	if _, err := Write(t.Context(), from, spoiling{place}, Options{Keep: 1}); err == nil || !strings.Contains(err.Error(), "does not match its checksum") {
		t.Errorf("a backup that is damaged when it is read back: %v, want an error", err)
	}
	if got, err := restoreName(t, place, Which{}); got != name || err != nil {
		t.Errorf("restored state %q (%v), want %q", got, err, name)
	}
	if names, _, err := place.Names(t.Context()); len(names) != 1 || err != nil {
		t.Errorf("the place has %v (%v), want the first copy", names, err)
	}
}

// TestPlacesOfOthersAreRefused also takes the copies away: then the disk of the place may not be mounted.
func TestPlacesOfOthersAreRefused(t *testing.T) {
	from, _ := newState(t)
	other, _ := newState(t)
	place := Folder(t.TempDir())
	made := writeTo(t, place, from, Options{})
	if _, err := Write(t.Context(), other, place, Options{}); err == nil || !strings.Contains(err.Error(), "has the backups of another data folder") {
		t.Errorf("a backup of another state: %v, want a refusal", err)
	}
	if err := os.Remove(place.pathOf(made.File)); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(t.Context(), from, place, Options{Known: true}); err == nil || !strings.Contains(err.Error(), "mount its disk") {
		t.Errorf("a backup where the others are gone: %v, want a refusal", err)
	}
	writeTo(t, place, other, Options{})
}

// TestBackupFollowsFutureDatedBackup: the last backup is the newest, even if the clock was ahead at an
// earlier one.
func TestBackupFollowsFutureDatedBackup(t *testing.T) {
	from, _ := newState(t)
	place := Folder(t.TempDir())
	made := writeTo(t, place, from, Options{})
	ahead := strings.Replace(made.File, made.At.Format(timeForm), made.At.AddDate(1, 0, 0).Format(timeForm), 1)
	if err := os.Rename(place.pathOf(made.File), place.pathOf(ahead)); err != nil {
		t.Fatal(err)
	}
	made = writeTo(t, place, from, Options{Keep: 2})
	if newest, err := Newest(t.Context(), place); newest.File != made.File || err != nil {
		t.Errorf("the newest is %s (%v), want %s", newest.File, err, made.File)
	}
}

// TestNamesTellNoSecret holds what somebody learns who can read the place.
func TestNamesTellNoSecret(t *testing.T) {
	from, name := newState(t)
	place := Folder(t.TempDir())
	writeTo(t, place, from, Options{Recipients: []string{ownKey}})
	all, remains, err := listBackups(t.Context(), place)
	if err != nil || len(all) != 1 || len(remains) > 0 || all[0].instance != name || !all[0].Encrypted() {
		t.Errorf("backups %+v and %q (%v), want one of the state", all, remains, err)
	}
}
