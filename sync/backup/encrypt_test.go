package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
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
		{Which{}, "no identity was given; it is encrypted to age1m8qq4a9jqpva…: pass the identity file"},
		{Which{Identity: identity(t, otherIdentity)}, "it is encrypted to another identity; it is encrypted to age1m8qq4a9jqpva…"},
		{Which{File: "state-1.db"}, "has no complete backup \"state-1.db\", only " + plain.File + ", " + made.File},
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

// TestEditedFilesAreNotRestored also edits the manifest as somebody would who can write to the place.
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
		forged := made
		if forged.Bytes, forged.Sum, err = sumFile(place.pathOf(made.File)); err != nil {
			t.Fatal(err)
		}
		m := Manifest{Version: formatVersion, Backups: []Backup{forged}}
		if err := m.replace(t.Context(), place, ""); err != nil {
			t.Fatal(err)
		}
		if name, err := restoreName(t, place, Which{Identity: identity(t, ownIdentity)}); err == nil {
			t.Errorf("%s with its checksum: restored state %q, want an error", edit, name)
		}
		m.Backups[0] = made
		if err := m.replace(t.Context(), place, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// spoiling is a place that damages what is stored in it.
type spoiling struct{ Folder }

func (s spoiling) Put(ctx context.Context, path, name string) error {
	return errors.Join(s.Folder.Put(ctx, path, name), os.Truncate(s.pathOf(name), 5000))
}

func TestABadBackupRemovesNoGoodOne(t *testing.T) {
	from, name := newState(t)
	place := Folder(t.TempDir())
	writeTo(t, place, from, Options{Keep: 1})
	if _, err := Write(t.Context(), from, spoiling{place}, Options{Keep: 1}); err == nil || !strings.Contains(err.Error(), "does not match its checksum") {
		t.Errorf("a backup that is damaged when it is read back: %v, want an error", err)
	}
	if got, err := restoreName(t, place, Which{}); got != name || err != nil {
		t.Errorf("restored state %q (%v), want %q", got, err, name)
	}
	if names, err := place.Names(t.Context()); len(names) != 2 || err != nil {
		t.Errorf("the place has %v (%v), want a manifest and a copy", names, err)
	}
}

// silent is a place that replaces the manifest, but whose answer is lost.
type silent struct{ Folder }

func (s silent) Replace(ctx context.Context, name string, text []byte, version string) (string, error) {
	made, err := s.Folder.Replace(ctx, name, text, version)
	return made, errors.Join(err, errors.New("connection reset"))
}

func TestALostAnswerDamagesNothing(t *testing.T) {
	from, name := newState(t)
	place := Folder(t.TempDir())
	writeTo(t, place, from, Options{})
	if _, err := Write(t.Context(), from, silent{place}, Options{}); err == nil || !strings.Contains(err.Error(), "connection reset") {
		t.Errorf("a backup whose last answer is lost: %v, want an error", err)
	}
	if got, err := restoreName(t, place, Which{}); got != name || err != nil {
		t.Errorf("restored state %q (%v), want %q", got, err, name)
	}
}

// TestPlacesOfOthersAreRefused also takes the manifest away: then the copies could be of any state.
func TestPlacesOfOthersAreRefused(t *testing.T) {
	from, _ := newState(t)
	other, _ := newState(t)
	place := Folder(t.TempDir())
	writeTo(t, place, from, Options{})
	if _, err := Write(t.Context(), other, place, Options{}); err == nil || !strings.Contains(err.Error(), "has the backups of another data folder") {
		t.Errorf("a backup of another state: %v, want a refusal", err)
	}
	if err := os.Remove(place.pathOf(manifestName)); err != nil {
		t.Fatal(err)
	}
	for known, want := range map[bool]string{false: ", but no backup.json: put it back", true: "mount its disk"} {
		if _, err := Write(t.Context(), from, place, Options{Known: known}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a backup beside copies without a manifest: %v, want %q", err, want)
		}
	}
	if names, err := place.Names(t.Context()); len(names) != 1 || err != nil {
		t.Errorf("the place has %v (%v), want the copy", names, err)
	}
}

// TestTheManifestTellsNoSecret holds what somebody learns who can read the place.
func TestTheManifestTellsNoSecret(t *testing.T) {
	from, name := newState(t)
	place := Folder(t.TempDir())
	writeTo(t, place, from, Options{Recipients: []string{ownKey}})
	file, _, err := place.Open(t.Context(), manifestName)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(file)
	var m Manifest
	if err := errors.Join(err, file.Close(), json.Unmarshal(text, &m)); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(ownKey)) || m.Instance != name || len(m.Backups) != 1 || m.Backups[0].Hints[0] != "age1m8qq4a9jqpva…" {
		t.Errorf("manifest %s, want the name of the state and a hint of the recipient", text)
	}
}
