//go:build iceberg

package iceberg

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// listen serves each connection of an address of its own.
func listen(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

// answers is a PostgreSQL server that asks for the password and then refuses the connection.
func answers(code, message string) func(net.Conn) {
	return func(conn net.Conn) {
		server := pgproto3.NewBackend(conn, conn)
		if _, err := server.ReceiveStartupMessage(); err != nil {
			return
		}
		server.Send(&pgproto3.AuthenticationCleartextPassword{})
		if server.Flush() != nil || server.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
			return
		}
		if _, err := server.Receive(); err != nil {
			return
		}
		server.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: message})
		_ = server.Flush() // to a client that may have left
	}
}

// TestPostgresThatRefuses: each message says on one line why the catalog cannot be used and what to do, and none
// has the password.
func TestPostgresThatRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		serve func(net.Conn)
		says  string
	}{
		"wrong password":    {answers("28P01", `password authentication failed for user "outlierd"`), "correct the user and the password in `catalog` and restart"},
		"no entry":          {answers("28000", `no pg_hba.conf entry for host "10.0.0.9"`), "no pg_hba.conf entry"},
		"no database":       {answers("3D000", `database "lake" does not exist`), "create it, or correct `catalog`"},
		"no permission":     {answers("42501", `permission denied for database "lake"`), "let the user connect to the database"},
		"too many":          {answers("53300", "sorry, too many clients already"), "it is tried again"},
		"starting":          {answers("57P03", "the database system is starting up"), "it is tried again"},
		"repeats a secret":  {answers("XX000", "you sent s3cr3t/4 just now"), "you sent xxxxx just now"},
		"nothing listens":   {nil, "the database cannot be reached: connection refused: see that it runs"},
		"closes":            {func(net.Conn) {}, "the database cannot be reached: "},
		"never answers":     {func(c net.Conn) { _, _ = c.Read(make([]byte, 1<<10)); <-t.Context().Done() }, "the database cannot be reached: it does not answer: "},
		"is something else": {func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, "the database cannot be reached: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := "127.0.0.1:1"
			if c.serve != nil {
				address = listen(t, c.serve)
			}
			o := options(t.TempDir(), "a")
			o.Catalog = fmt.Sprintf("postgres://outlierd:s3cr3t%%2F4@%s/lake?sslmode=disable", address)
			if name == "never answers" {
				o.Patience = 200 * time.Millisecond
			}
			for what, open := range map[string]func() error{
				"open":  func() error { _, err := New(nil, o).Shows(t.Context()); return err },
				"probe": func() error { return Probe(t.Context(), o) },
			} {
				err := open()
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v; want %q", what, err, c.says)
					continue
				}
				for _, secret := range []string{"s3cr3t", "\n", "failed to connect"} {
					if strings.Contains(err.Error(), secret) {
						t.Errorf("%s: %q is in %q", what, secret, err)
					}
				}
			}
		})
	}
}

// TestFullDiskIsNoNetworkError: with a catalog in PostgreSQL, an error of the warehouse's disk is not said of the
// database.
func TestFullDiskIsNoNetworkError(t *testing.T) {
	p := &place{postgres: true}
	for _, full := range []error{
		&fs.PathError{Op: "write", Path: "/lake/data", Err: syscall.ENOSPC},
		&os.LinkError{Op: "rename", Old: "/lake/.data.tmp", New: "/lake/data", Err: syscall.ENOSPC},
	} {
		if err := p.plain(fmt.Errorf("commit: %w", full)); strings.Contains(err.Error(), "database") || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v", err)
		}
	}
}
