//go:build iceberg

package iceberg

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"outlierd/sinks/bucket/buckettest"
	"outlierd/sinks/sinktest"
	"outlierd/sinks/warehouse"
)

// TestRenewedKeysOfABucket: the keys in a file expire while the sink is in use, and are replaced there. The
// sink uses the new ones without being told, and has all rows.
func TestRenewedKeysOfABucket(t *testing.T) {
	t.Parallel()
	dir, journal := t.TempDir(), sinktest.Sample(6)
	store := buckettest.New("renewed")
	server := httptest.NewServer(store)
	defer server.Close()
	accept := func(id string) {
		store.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
			accepted := strings.Contains(r.Header.Get("Authorization"), "Credential="+id+"/")
			if !accepted {
				buckettest.Refuse(w, http.StatusBadRequest, "ExpiredToken")
			}
			return !accepted
		})
	}
	keys := filepath.Join(dir, "credentials")
	write := func(id string) {
		text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = s3cret\naws_session_token = token-%[1]s\n", id)
		if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := options(dir, "a")
	o.Warehouse = "s3://renewed/lake"
	o.Env = func(name string) (string, bool) {
		value, ok := map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_SHARED_CREDENTIALS_FILE": keys}[name]
		return value, ok
	}
	rows := sinktest.Open(func(t testing.TB, _ string, w *warehouse.Warehouse) sinktest.Copy {
		return sinktest.Copy{Copy: New(w, o), Read: readOf(o)}
	})
	l := rows.Line(t, dir)
	write("first")
	accept("first")
	l.Write(t, journal, 0, 2)
	l.Publish(t)

	accept("second")
	l.Write(t, journal, 2, 6)
	for range 2 { // as long as they are not renewed
		err := l.Copy.Publish(t.Context())
		if err == nil || !strings.Contains(err.Error(), "the credentials have expired: renew them") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("with expired keys: %v", err)
		}
	}
	write("second")
	l.Publish(t)
	l.Check(t, journal, 6)
	l.Close(t)
}

// TestRenewedPasswordOfPostgres: the file with the password is read again after the server has refused it.
func TestRenewedPasswordOfPostgres(t *testing.T) {
	const renewed = "s3cr3t-of-today"
	address := listen(t, func(conn net.Conn) {
		server := pgproto3.NewBackend(conn, conn)
		if _, err := server.ReceiveStartupMessage(); err != nil {
			return
		}
		server.Send(&pgproto3.AuthenticationCleartextPassword{})
		if server.Flush() != nil || server.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
			return
		}
		message, err := server.Receive()
		if err != nil {
			return
		}
		refusal := &pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "password authentication failed"}
		if sent, ok := message.(*pgproto3.PasswordMessage); ok && sent.Password == renewed {
			refusal = &pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P03", Message: "accepted, but starting up"}
		}
		server.Send(refusal)
		_ = server.Flush() // to a client that may have left
	})
	dir := t.TempDir()
	passwords := filepath.Join(dir, "pgpass")
	t.Setenv("PGPASSFILE", passwords)
	o := options(dir, "a")
	o.Catalog = "postgres://outlierd@" + address + "/lake?sslmode=disable"
	s := New(nil, o)
	for _, c := range []struct{ password, says string }{
		{"s3cr3t-of-yesterday", "a file that PGPASSFILE names is read again without that"},
		{renewed, "accepted, but starting up"},
	} {
		if err := os.WriteFile(passwords, []byte("*:*:lake:outlierd:"+c.password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := s.Shows(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("got %v, want %q", err, c.says)
		}
	}
}
