package job

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outlierd/sync/yamltree"
)

// keyed returns a file whose key is the value of a YAML text.
func keyed(key string) string {
	return "version: 1\nservice:\n  url: https://service.example\n  key: " + key + "\nbudget: {per_month: 9}\njobs: {a: {search: {query: x}}}\n"
}

// commanded loads a file from a new folder.
func commanded(t *testing.T, text string) (*Config, error) {
	t.Helper()
	folderOf(t, map[string]string{"jobs.yaml": text, "secret": "sesame-1234567890\n"})
	return Load("jobs.yaml", nothingSet)
}

// Reading the job file runs no commands; they run when their secrets are needed.
func TestCommandsRunOnlyForNeededSecrets(t *testing.T) {
	const read = `"${command: sh -c 'echo run >>log; cat secret'}"`
	c, err := commanded(t, keyed(read)+"daemon: {listen: 127.0.0.1:7411, token: "+read+"}\nnotify:\n  hook: {webhook: \"\", headers: {Authorization: 'Bearer ${command: cat secret}'}}\n"+
		"  mail: {mail: {server: localhost, user: me, from: a@b.example, to: a@b.example, password: "+read+"}}\n"+
		"  ping: {healthchecks: '${command: echo https://ping.example/1234}'}\n")
	if err != nil || !c.HasCommands() || !c.Service.Key.IsZero() || c.Daemon.Token.Reveal() != "" {
		t.Fatalf("loaded: %v, %+v", err, c)
	}
	if _, err := LoadToRead("jobs.yaml", nothingSet); err != nil {
		t.Error(err)
	}
	if _, d := DaemonOf("jobs.yaml", nothingSet); d.Token.Reveal() != "" {
		t.Error("the daemon's settings have a token that was not read")
	}
	if _, err := c.Once(OneOff{Keys: Keys{"search.query": {"x"}}}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("log"); err == nil {
		t.Error("reading a file has run its commands")
	}
	full, err := c.RunCommands(t.Context())
	if err != nil || full.Fingerprint != c.Fingerprint || len(full.Warnings) != len(c.Warnings) {
		t.Fatalf("run: %v", err)
	}
	const secret = "sesame-1234567890"
	for name, got := range map[string]string{
		"token": full.Daemon.Token.Reveal(), "password": full.Target("mail").Mail.Password.Reveal(),
		"header": strings.TrimPrefix(full.Target("hook").Headers["Authorization"].Reveal(), "Bearer "),
		"key":    strings.ReplaceAll(full.Service.Key.Redact(secret), "[redacted]", secret),
	} {
		if got != secret {
			t.Errorf("%s is %q", name, got)
		}
	}
	if full.Service.Key.Redact(secret) == secret || full.Target("ping").URL.Reveal() != "https://ping.example/1234" {
		t.Error("the key or an address is not what its command printed")
	}
	if log, _ := os.ReadFile("log"); strings.Count(string(log), "run") != 3 {
		t.Errorf("3 commands ran %d times", strings.Count(string(log), "run"))
	}
	plain, err := commanded(t, keyed("${X:-}"))
	if plain != nil || err == nil {
		t.Errorf("an empty key is %v", err)
	}
}

// TestCommandsThatFailAreMistakes with their place, whatever a program does, and what it printed is not shown.
func TestCommandsThatFailAreMistakes(t *testing.T) {
	defer func(was time.Duration) { commandTimeout = was }(commandTimeout)
	for name, c := range map[string]struct{ command, want string }{
		"prints nothing":   {"true", "the command true: it printed nothing"},
		"prints a newline": {"echo", "the command echo: it printed nothing"},
		"fails":            {"sh -c 'echo CANARY; echo CANARY >&2; exit 3'", "the command sh: exit status 3; run it as the user of outlierd"},
		"fails silently":   {"false", "the command false: exit status 1"},
		"a signal":         {"sh -c 'kill -9 $$'", "the command sh: signal: killed"},
		"10 MB":            {"head -c 10000000 /dev/zero", "the command head: it printed more than 65536 bytes"},
		"several lines":    {`printf 'CANARY\nCANARY\n'`, "the command printf: it printed several lines, and a secret is one"},
		"no program":       {"nosuchprogram read", `the command nosuchprogram: exec: "nosuchprogram": executable file not found`},
		"no such path":     {"./nosuch", "the command ./nosuch: fork/exec ./nosuch: no such file or directory"},
		"not executable":   {"./secret", "the command ./secret: fork/exec ./secret: permission denied"},
		"no key":           {"echo CANARY CANARY", "the key has a space"},
		"hangs":            {"sh -c 'echo CANARY; sleep 1000 & sleep 1000'", "the command sh: killed after 1 s"},
		"reads its input":  {"cat", "the command cat: it printed nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			commandTimeout = 30 * time.Second
			if name == "hangs" {
				commandTimeout = time.Second
			}
			config, err := commanded(t, keyed(`"${command: `+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(c.command)+`}"`))
			if err != nil {
				t.Fatal(err)
			}
			_, err = config.RunCommands(t.Context())
			found, ok := errors.AsType[yamltree.Mistakes](err)
			if !ok || len(found) != 1 || !strings.HasPrefix(found[0].String(), "jobs.yaml:4:8: service.key: ") || !strings.Contains(found[0].Message, c.want) {
				t.Fatalf("got %v, want one mistake with %s", err, c.want)
			}
			if strings.Contains(found[0].String(), "CANARY") && !strings.Contains(found[0].String(), `"${command: `) {
				t.Errorf("%s shows what the program printed", found[0])
			}
		})
	}
}

// TestCommandFormIsCheckedWithoutRunning the command, and so is its place in the file.
func TestCommandFormIsCheckedWithoutRunning(t *testing.T) {
	const misplaced = "${command: …} is allowed only in secrets such as service.key; use a variable or ${file:…}"
	for name, c := range map[string]struct{ text, want string }{
		"an open quote":   {keyed(`"${command: sh -c 'echo}"`), "jobs.yaml:4:8: service.key: ${command:…}: a quote ' is not closed; a command ends at the first }"},
		"braces":          {keyed(`"${command: awk '{print $1}' x}"`), "service.key: ${command:…}: a quote ' is not closed; a command ends at the first }, so put one with braces into a script"},
		"no program":      {keyed(`"${command: }"`), "jobs.yaml:4:8: service.key: ${command:…}: names no program"},
		"an empty word":   {keyed(`"${command: '' x}"`), "service.key: ${command:…}: names no program"},
		"no brace":        {keyed(`"${command: op read"`), "service.key: ${ without its closing brace"},
		"an address":      {strings.Replace(keyed("${command:x}"), "https://service.example", `"${command: touch ran}"`, 1), "jobs.yaml:3:8: service.url: " + misplaced},
		"a query":         {strings.Replace(keyed("${command:x}"), "query: x", `query: "${command: touch ran}"`, 1), "jobs.a.search.query: " + misplaced},
		"a filter":        {keyed("${command:x}") + "filters: {f: {title_pattern: '${command: touch ran} ${x}'}}\n", "filters.f.title_pattern: "},
		"free parameters": {keyed("${command:x}") + "  b: {trending_formats: {x: '${command: touch ran}'}}\n", "trending_formats.x: " + misplaced},
		"a command":       {keyed("${command:x}") + "notify: {t: {command: ['${command: touch ran}']}}\n", "notify.t.command: " + misplaced},
		"no quotes":       {keyed("${command: op read}"), "jobs.yaml:4:17: not YAML: mapping values are not allowed in this context; put ${command: …} between quotes"},
		"include":         {keyed("${command:x}") + "include: '${command: touch ran}'\n", "include: " + misplaced},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(c.text, "jobs: {a: {search: {query: x}}}\n  b:", "jobs:\n  a: {search: {query: x}}\n  b:", 1)
			_, err := commanded(t, text)
			if found, ok := errors.AsType[yamltree.Mistakes](err); !ok || len(found) != 1 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want one mistake: %s", err, c.want)
			}
			if config, err := LoadToRead("jobs.yaml", nothingSet); err == nil { // such a command warns of a wrong key
				_, err = config.RunCommands(t.Context())
				if !strings.Contains(c.want, "service.key") || err != nil {
					t.Errorf("a command that only reads accepts it; run: %v", err)
				}
			}
			if _, err := os.Stat("ran"); err == nil {
				t.Error("the command was run")
			}
		})
	}
}

// TestWorldWritableFileRunsNoCommand, because another user of the machine could run programs as the user of
// outlierd.
func TestWorldWritableFileRunsNoCommand(t *testing.T) {
	folderOf(t, map[string]string{"jobs.yaml": keyed("${command:cat secret}") + "include: jobs.d/*.yaml\n", "secret": "sesame",
		"jobs.d/a.yaml": "notify: {t: {webhook: '${command: echo https://hook.example}'}}\n"})
	for file, want := range map[string]string{
		"jobs.yaml":     "jobs.yaml:4:8: service.key: the command cat was not run, because every user can write to jobs.yaml",
		"jobs.d/a.yaml": "jobs.d/a.yaml:1:23: notify.t.webhook: the command echo was not run, because every user can write to jobs.d/a.yaml",
	} {
		if err := os.Chmod(file, 0o666); err != nil {
			t.Fatal(err)
		}
		c, err := Load("jobs.yaml", nothingSet)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.RunCommands(t.Context())
		if found, _ := errors.AsType[yamltree.Mistakes](err); len(found) != 1 || !strings.HasPrefix(found[0].String(), want) {
			t.Errorf("%s: got %v", file, err)
		}
		if err := os.Chmod(file, 0o664); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load("jobs.yaml", nothingSet)
	if err == nil {
		_, err = c.RunCommands(t.Context())
	}
	if err != nil {
		t.Errorf("a file that a group can write: %v", err)
	}
}

// TestInterruptedCommandIsKilled together with the programs that it has started.
func TestInterruptedCommandIsKilled(t *testing.T) {
	c, err := commanded(t, keyed("${command:sh -c 'sleep 1000 & echo $! >pid; wait'}"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if pid, _ := os.ReadFile("pid"); strings.HasSuffix(string(pid), "\n") {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := c.RunCommands(ctx); err == nil {
		t.Fatal("it has ended by itself")
	}
	pid, _ := os.ReadFile("pid")
	for path := filepath.Join("/proc", strings.TrimSpace(string(pid)), "cmdline"); ; time.Sleep(time.Millisecond) {
		if line, _ := os.ReadFile(path); len(line) == 0 { // a zombie has none
			return
		}
	}
}
