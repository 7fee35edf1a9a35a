package e2e

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"outlierd/outlier/simulator"
)

// TestHangingCollectorDelaysNothing: an OpenTelemetry collector accepts connections and never answers.
// Runs start on time, and the daemon stops in time.
func TestHangingCollectorDelaysNothing(t *testing.T) {
	t.Parallel() // it runs a process of its own
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var hung sync.Map
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the listener is closed
			}
			hung.Store(conn, true) // and is not read from
		}
	}()
	w := newWorld(t, simulator.Options{Seed: 5, Limit: 1_000_000})
	w.write(`
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
sinks: [{parquet: parquet}]
budget: {per_month: 1000}
defaults: {reuse_for: 1m}
jobs:
  tea: {every: 1m, search: {query: [tea]}}
  mate: {every: 1m, search: {query: [mate]}}
`)
	d := w.up("OTEL_EXPORTER_OTLP_ENDPOINT=http://" + listener.Addr().String())
	const runs = 8 // these would take more than a minute if each waited for the collector
	for until := time.Now().Add(time.Minute); strings.Count(d.log.String(), `"run finished"`) < runs; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("fewer than %d runs ended within a minute: %s", runs, d.log)
		}
	}
	if took := d.stop(); took > maxStop {
		t.Errorf("the stop took %s, want at most %s", took, maxStop)
	}
	waited := 0
	for conn := range hung.Range {
		conn.(net.Conn).Close()
		waited++
	}
	if waited == 0 {
		t.Errorf("no connection to the collector was made: %s", d.log)
	}
}
