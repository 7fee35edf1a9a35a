package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
)

// proxy is the network between the program and the service: it loses, truncates and delays answers, replaces them
// with those of a gateway, can be down, and shifts the service's clock.
type proxy struct {
	service   *simulator.Service
	address   string
	violation func(format string, args ...any) // a rule was broken

	mu     sync.Mutex
	random *rand.Rand
	server *http.Server  // nil while connections are refused
	resets bool          // whether every connection is reset
	faulty float64       // the share of calls with a fault
	skew   time.Duration // of the service's clock
	key    string        // that the service accepts
	stop   *breakpoint   // nil for none
	calls  []*wireCall

	serviceDays map[string]bool // days of the Date headers of the service
	gatewayDays map[string]bool // days of the Date headers of a gateway
}

// wireCall is a request as the network saw it.
type wireCall struct {
	at, end  time.Time // end is zero while it is in progress
	path     string
	identity string // as in [simulator.Call]; without the body
	fault    string // an element of callFaults; "" for none
}

// breakpoint stops the next paid call at a stage until the program is killed: a kill there is the most dangerous.
type breakpoint struct {
	stage   string
	reached chan struct{} // closed when a call has reached the stage
	killed  chan struct{} // closed when the program was killed
}

// The stages of a call.
const (
	atRequest = "a paid call arrives"
	atAnswer  = "a paid call was charged"
	atEnd     = "a paid call was answered"
)

// reaches waits at a breakpoint until the program was killed.
func (f *proxy) reaches(call *wireCall, stage string) {
	f.mu.Lock()
	b := f.stop
	if b == nil || b.stage != stage || call.path != "/scan" && !strings.HasPrefix(call.path, "/search/") {
		f.mu.Unlock()
		return
	}
	f.stop = nil
	f.mu.Unlock()
	close(b.reached)
	<-b.killed
}

// disturbed reports whether the program did not receive the complete answer of the service.
func (c *wireCall) disturbed() bool { return c.fault != "" && c.fault != "slow" }

// otherKey belongs to another service, and must never be sent to this one.
const otherKey = "key-of-another-service"

// callFaults are the faults of calls. Frequent ones are listed several times.
var callFaults = []string{
	"slow", "slow", "slow", "slow", "slow", "slow",
	"request lost", "request lost", "answer lost", "answer lost", "answer lost",
	"answer truncated", "answer truncated", "answer truncated",
	"server error", "server error", "gateway page", "gateway page", "gateway alone", "gateway JSON", "gateway JSON",
	"login page", "garbage", "limited", "no comments", "missing", "no credits", "key refused",
}

func newProxy(service *simulator.Service, random *rand.Rand, violation func(string, ...any)) (*proxy, error) {
	f := &proxy{
		service: service, random: random, violation: violation, key: "key-0",
		serviceDays: map[string]bool{}, gatewayDays: map[string]bool{},
		// An address of its own, so that no other socket gets the port while the proxy does not listen.
		address: fmt.Sprintf("127.%d.%d.%d:0", 1+random.IntN(254), random.IntN(255), 2+random.IntN(250)),
	}
	return f, f.listen()
}

// listen accepts connections, at the same address as before.
func (f *proxy) listen() error {
	listener, err := net.Listen("tcp", f.address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	f.mu.Lock()
	f.address, f.server, f.resets = listener.Addr().String(), server, false
	f.mu.Unlock()
	go server.Serve(listener) // until down
	return nil
}

// down closes all connections and refuses new ones, or resets connections if resets is set.
func (f *proxy) down(resets bool) {
	f.mu.Lock()
	f.resets = resets
	server := f.server
	if !resets {
		f.server = nil
	}
	f.mu.Unlock()
	if !resets && server != nil {
		server.Close()
	}
}

// up undoes down.
func (f *proxy) up() error {
	f.mu.Lock()
	f.resets = false
	listening := f.server != nil
	f.mu.Unlock()
	if listening {
		return nil
	}
	return f.listen()
}

func (f *proxy) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// began records a call and chooses its fault.
func (f *proxy) began(r *http.Request) (call *wireCall, skew time.Duration, delay time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	call = &wireCall{at: time.Now(), path: r.URL.Path, identity: identityOf(r.URL)}
	delay = time.Duration(1+f.random.IntN(8)) * time.Millisecond
	if f.random.Float64() < f.faulty {
		call.fault = callFaults[f.random.IntN(len(callFaults))]
	}
	if f.resets {
		call.fault = "request lost"
	}
	skipRare := f.random.IntN(10) > 0
	switch {
	case (call.fault == "no credits" || call.fault == "key refused") && skipRare:
		call.fault = ""
	case call.fault == "no comments" && !strings.HasPrefix(call.path, "/video/comments/"):
		call.fault = ""
	case call.fault == "missing" && !strings.HasPrefix(call.path, "/video/"):
		call.fault = ""
	case call.fault == "slow":
		delay = time.Duration(200+f.random.IntN(2500)) * time.Millisecond
	}
	f.calls = append(f.calls, call)
	return call, f.skew, delay
}

// identityOf returns the identity of a request in [simulator.Call].
func identityOf(u *url.URL) string {
	op := map[string]outlier.Operation{
		"/search/outliers": outlier.OpSearch, "/search/outliers/related": outlier.OpRelated,
		"/search/trending-formats": outlier.OpTrendingFormats, "/search/channels": outlier.OpFindChannels,
	}[u.Path]
	return string(op) + "  " + u.Query().Encode()
}

func (f *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call, skew, delay := f.began(r)
	done := func(fault string) {
		f.set(func() {
			if call.end = time.Now(); fault != "" {
				call.fault = fault
			}
		})
	}
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Api-Key ")
	if key == otherKey {
		f.violation("the key of another service was sent to this one: %s", r.URL.Path)
	}
	f.set(func() {
		if key == f.key {
			r.Header.Set("Authorization", "Api-Key demo")
		}
	})
	f.reaches(call, atRequest)
	defer f.reaches(call, atEnd)
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		done("request lost")
		panic(http.ErrAbortHandler)
	}
	switch call.fault {
	case "request lost":
		done("")
		hangUp(w)
		return
	case "gateway alone":
		done("")
		f.gateway(w, "text/html", "<html>502 Bad Gateway</html>")
		return
	case "server error":
		f.service.FailNext("", simulator.ServerError)
	case "limited":
		f.service.FailNext("", simulator.RateLimited)
	case "no credits":
		f.service.FailNext("", simulator.NoCredits)
	case "key refused":
		f.service.FailNext("", simulator.Unauthorized)
	case "missing":
		r.URL.Path = r.URL.Path[:strings.LastIndex(r.URL.Path, "/")+1] + "-----------"
	}
	answer := httptest.NewRecorder()
	f.service.ServeHTTP(answer, r)
	f.reaches(call, atAnswer)
	f.mu.Lock()
	isDown := f.server == nil || f.resets
	f.mu.Unlock()
	if isDown || r.Context().Err() != nil {
		done("answer lost")
		panic(http.ErrAbortHandler)
	}
	switch call.fault {
	case "answer lost":
		done("")
		hangUp(w)
	case "gateway page":
		done("")
		f.gateway(w, "text/html", "<html>504 Gateway Time-out</html>")
	case "gateway JSON":
		done("")
		f.gateway(w, "application/json", `{"error":{"message":"upstream request timeout"}}`)
	case "login page":
		done("")
		f.date(w, skew)
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte("<html>log in to the network</html>"))
	case "garbage":
		done("")
		f.date(w, skew)
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"hits": [{"id": `))
	default:
		f.pass(w, answer, call, skew, done)
	}
}

// pass sends the service's answer, complete or truncated.
func (f *proxy) pass(
	w http.ResponseWriter, answer *httptest.ResponseRecorder, call *wireCall, skew time.Duration, done func(fault string),
) {
	body := answer.Body.Bytes()
	if answer.Code == http.StatusTooManyRequests {
		body = later(body, skew)
	}
	if call.fault == "no comments" && answer.Code == http.StatusOK {
		answer.Header().Del("Content-Encoding")
		id := call.path[strings.LastIndex(call.path, "/")+1:]
		body = fmt.Appendf(nil, `{"ids":[%q],"items":[{"comments":[],"id":%[1]q,"statistics":{"count":0}}],"time":%q}`,
			id, time.Now().UTC().Format(time.RFC3339))
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	f.date(w, skew)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(answer.Code)
	if call.fault == "answer truncated" {
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
		done("")
		panic(http.ErrAbortHandler)
	}
	_, err := w.Write(body)
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err != nil {
		done("answer lost")
		return
	}
	done("")
}

// date sets the Date header to the service's time.
func (f *proxy) date(w http.ResponseWriter, skew time.Duration) {
	at := time.Now().UTC().Add(skew)
	w.Header().Set("Date", at.Format(http.TimeFormat))
	f.set(func() { f.serviceDays[at.Format(time.DateOnly)] = true })
}

// gateway answers instead of the service, with a wrong clock.
func (f *proxy) gateway(w http.ResponseWriter, mime, body string) {
	f.mu.Lock()
	wrong := []time.Duration{-34 * time.Hour, 34 * time.Hour, 400 * 24 * time.Hour}[f.random.IntN(3)]
	at := time.Now().UTC().Add(f.skew + wrong)
	f.gatewayDays[at.Format(time.DateOnly)] = true
	f.mu.Unlock()
	w.Header().Set("Date", at.Format(http.TimeFormat))
	w.Header().Set("Content-Type", mime)
	w.WriteHeader(http.StatusBadGateway)
	w.Write([]byte(body))
}

var resetTime = regexp.MustCompile(`"resetTime":"([^"]+)"`)

// later moves the end of a window by the skew of the service's clock.
func later(body []byte, skew time.Duration) []byte {
	return resetTime.ReplaceAllFunc(body, func(found []byte) []byte {
		at, err := time.Parse(time.RFC3339, string(resetTime.FindSubmatch(found)[1]))
		if err != nil {
			return found
		}
		return fmt.Appendf(nil, `"resetTime":%q`, at.Add(skew).Format("2006-01-02T15:04:05.000Z07:00"))
	})
}

// hangUp resets the connection.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// longCalls returns the times of calls of more than 150 ms: the program makes one call at a time.
func (f *proxy) longCalls(now time.Time) (all []span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		end := c.end
		if end.IsZero() {
			end = now
		}
		if end.Sub(c.at) > 150*time.Millisecond {
			all = append(all, span{c.at, end})
		}
	}
	return all
}

// disturbances counts the calls with these faults, or without any given, the calls whose answers did not arrive
// complete, by identity.
func (f *proxy) disturbances(faults ...string) map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := map[string]int{}
	for _, c := range f.calls {
		if len(faults) == 0 && c.disturbed() || slices.Contains(faults, c.fault) {
			n[c.identity]++
		}
	}
	return n
}
