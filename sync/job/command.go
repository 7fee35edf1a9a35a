package job

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"outlierd/internal/subprocess"
	"outlierd/sync/yamltree"
)

// # Secrets from commands
//
// Reading a file runs none of its ${command: …}, so checking a file of another person is safe. What needs the
// secrets calls [Config.RunCommands]: what makes calls or sends notifications, when it starts and when it uses an
// edited file.

// The limits of a command. Tests change the time.
var commandTimeout = 30 * time.Second

const maxPrinted = 64 << 10 // bytes

// HasCommands reports whether a secret of the file comes from a command.
func (c *Config) HasCommands() bool { return c.commands }

// RunCommands returns the file as it was loaded, with the values of its commands, which it runs. The error for a
// command that fails is [yamltree.Mistakes].
func (c *Config) RunCommands(ctx context.Context) (*Config, error) {
	if !c.commands {
		return c, nil
	}
	b := newBuilder(c.sources, c.env, c.needs)
	b.run = func(file string, words []string) (string, error) { return runCommand(ctx, file, c.Dir, words) }
	full, err := b.finish()
	if err != nil {
		return nil, err
	}
	full.Fingerprint = c.Fingerprint // of the texts, so that comparing the files runs nothing
	return full, nil
}

// runCommand returns the line that a program prints. Errors never contain it.
func runCommand(ctx context.Context, file, dir string, words []string) (string, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return "", err
	case info.Mode().Perm()&0o002 != 0:
		return "", fmt.Errorf("the command %s was not run, because every user can write to %s; `chmod o-w` changes that",
			words[0], file)
	}
	printed := &subprocess.FirstBytes{Most: maxPrinted + 1}
	err = subprocess.Run(ctx, commandTimeout, words, func(c *exec.Cmd) {
		c.Dir, c.Stdout, c.Stderr = dir, printed, nil // a program may print the secret to either
	})
	value := strings.TrimSuffix(strings.TrimSuffix(printed.Text.String(), "\n"), "\r")
	switch {
	case err != nil:
	case printed.Text.Len() > maxPrinted:
		err = fmt.Errorf("%s: it printed more than %d bytes", words[0], maxPrinted)
	case value == "":
		err = fmt.Errorf("%s: it printed nothing", words[0])
	case strings.ContainsAny(value, "\r\n"):
		err = fmt.Errorf("%s: it printed several lines, and a secret is one", words[0])
	}
	if err != nil {
		return "", fmt.Errorf("the command %w; run it as the user of outlierd to see more", err)
	}
	return value, nil
}

// variables returns what expands the ${…} of the files.
func (b *builder) variables() yamltree.Variables {
	optional := map[string]string{"mcp.token": "`outlierd mcp --listen` does not start without the token"}
	if !b.cfg.needs.service {
		optional["service.url"] = "no job can run without the address"
		optional["service.key"] = "no job can run without the key"
		optional["daemon.token"] = "`outlierd up` does not start without the token"
	}
	command := func(file string, words []string) (string, error) {
		b.cfg.commands = true
		if b.run == nil {
			return "", yamltree.ErrNotRun
		}
		return b.run(file, words)
	}
	return yamltree.Variables{Env: b.env, Dir: b.cfg.Dir, Command: command, Optional: optional, Names: b.root}
}
