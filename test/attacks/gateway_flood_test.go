package attacks

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/waybill-release/waybill/pkg/serve"
)

// fortress is a gatehouse that callers come to by TLS, and so by HTTP/2.
type fortress struct {
	*gatehouse
	pool *x509.CertPool
}

func openFortress(t *testing.T, edits ...func(*gatehouse)) *fortress {
	t.Helper()
	ours := newAuthority(t)
	f := &fortress{pool: x509.NewCertPool()}
	f.pool.AddCert(ours.cert)
	certificate, key := ours.write(t.TempDir(), "server", ours.issue())
	f.gatehouse = openGatehouse(t, append(edits, func(g *gatehouse) {
		g.tls, g.log.off = &serve.TLS{Certificate: certificate, Key: key}, true
	})...)
	return f
}

func (f *fortress) config(protocol string) *tls.Config {
	return &tls.Config{RootCAs: f.pool, NextProtos: []string{protocol}, ServerName: "127.0.0.1"}
}

// honest is another caller, who waits no longer than an admission controller does.
func (f *fortress) honest() (ask func() error, done func()) {
	to := &http.Transport{TLSClientConfig: f.config("h2"), ForceAttemptHTTP2: true}
	client := &http.Client{Transport: to, Timeout: 10 * time.Second}
	token := f.neighbour()
	return func() error {
		req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, "https://"+f.host+"/v1/decisions", strings.NewReader(f.body(f.image)))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("answered %d: %.300s", resp.StatusCode, raw)
		}
		return err
	}, to.CloseIdleConnections
}

// calm is an honest caller who was answered, and how many goroutines there are
// before anybody attacks.
func (f *fortress) calm() (ask func() error, done func(), goroutines int) {
	f.t.Helper()
	ask, done = f.honest()
	if err := ask(); err != nil {
		f.t.Fatal(err)
	}
	return ask, done, runtime.NumGoroutine()
}

// spoken is a connection that HTTP/2 is spoken on, frame by frame.
type spoken struct {
	*http2.Framer
	conn   *tls.Conn
	out    *bufio.Writer
	block  bytes.Buffer
	encode *hpack.Encoder
	host   string
	token  string
	next   uint32
}

// hangUp is how long a connection is kept that nobody ends.
const hangUp = 20 * time.Second

func (f *fortress) speak(settings ...http2.Setting) (*spoken, error) {
	wire, err := net.Dial("tcp", f.host)
	if err != nil {
		return nil, err
	}
	// Who reads nothing is to be noticed soon. In a buffer of less than one segment
	// the kernel drops the acknowledgements, too, and both sides wait for minutes.
	_ = wire.(*net.TCPConn).SetReadBuffer(128 << 10)
	conn := tls.Client(wire, f.config("h2"))
	_ = conn.SetDeadline(time.Now().Add(hangUp))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		_ = conn.Close()
		return nil, err
	}
	s := &spoken{conn: conn, out: bufio.NewWriterSize(conn, 16<<10), host: f.host, token: f.token(nil), next: 1}
	s.Framer = http2.NewFramer(s.out, conn) // a flood does not send its frames one by one
	s.encode = hpack.NewEncoder(&s.block)
	return s, errors.Join(s.WriteSettings(settings...), s.out.Flush())
}

// head begins a request that is good so far.
func (s *spoken) head(more ...hpack.HeaderField) []byte {
	s.block.Reset()
	for _, field := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: s.host}, {Name: ":path", Value: "/v1/decisions"},
		{Name: "authorization", Value: "Bearer " + s.token},
	}, more...) {
		_ = s.encode.WriteField(field) // into memory
	}
	return bytes.Clone(s.block.Bytes())
}

// open opens one more stream, whose body is to come.
func (s *spoken) open() (uint32, error) {
	id := s.next
	s.next += 2
	return id, s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.head(), EndHeaders: true})
}

// long writes a head of any length.
func (s *spoken) long(block []byte) error {
	const most = 16 << 10
	id := s.next
	s.next += 2
	first := block[:min(most, len(block))]
	rest := block[len(first):]
	err := s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndHeaders: len(rest) == 0, EndStream: true})
	for len(rest) > 0 && err == nil {
		part := rest[:min(most, len(rest))]
		rest = rest[len(part):]
		err = s.WriteContinuation(id, len(rest) == 0, part)
	}
	return err
}

// flood is something that is done on a connection until the server hangs up,
// which is an error, or until it is enough.
type flood struct {
	name     string
	settings []http2.Setting
	// unread leaves the server's answers where they are.
	unread bool
	do     func(*spoken) error
	// ends says that the server must hang up.
	ends bool
}

// times does something so many times.
func times(n int, do func(i int) error) error {
	for i := range n {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

func floods() []flood {
	open := func(n int) func(*spoken) error {
		return func(s *spoken) error {
			return times(n, func(int) error { _, err := s.open(); return err })
		}
	}
	return []flood{
		{name: "streams opened and reset", do: func(s *spoken) error {
			return times(5_000, func(int) error {
				id, err := s.open()
				return errors.Join(err, s.WriteRSTStream(id, http2.ErrCodeCancel))
			})
		}},
		{name: "streams opened and left", do: open(100)},
		{name: "more streams than are allowed", do: open(20_000)},
		{name: "a head that never ends", ends: true, do: func(s *spoken) error {
			block := s.head(hpack.HeaderField{Name: "x-more", Value: strings.Repeat("a", 8_000)})
			if err := s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block}); err != nil {
				return err
			}
			more := []byte("\x00\x06x-more\x7f\x81\x3e" + strings.Repeat("a", 127+0x1f01)) // a field that no table keeps, without Huffman
			return times(4_000, func(int) error { return s.WriteContinuation(1, false, more) })
		}},
		{name: "a head of nothing that goes on and on", do: func(s *spoken) error {
			if err := s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: s.head()}); err != nil {
				return err
			}
			return times(300_000, func(int) error { return s.WriteContinuation(1, false, nil) })
		}},
		{name: "a field named many times", ends: true, do: func(s *spoken) error {
			fields := make([]hpack.HeaderField, 20_000)
			for i := range fields {
				fields[i] = hpack.HeaderField{Name: "x-large", Value: strings.Repeat("a", 3_000)}
			}
			block := s.head(fields...) // some 20 KB, which stand for 60 MB
			return times(100, func(int) error { return s.long(block) })
		}},
		{name: "pings, the answers unread", unread: true, ends: true, do: func(s *spoken) error {
			return times(2_000_000, func(int) error { return s.WritePing(false, [8]byte{}) })
		}},
		{name: "settings without end", do: func(s *spoken) error {
			return times(100_000, func(i int) error {
				return s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(1 + i%1000)})
			})
		}},
		{name: "a body of nothing", do: func(s *spoken) error {
			id, err := s.open()
			if err != nil {
				return err
			}
			return times(50_000, func(int) error { return s.WriteData(id, false, nil) })
		}},
		{name: "answers that may not be sent", settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}, do: func(s *spoken) error {
			return times(100, func(int) error {
				id, err := s.open()
				return errors.Join(err, s.WriteData(id, true, []byte(`{"schema":"none"}`)))
			})
		}},
	}
}

// attackers is how many connections of a kind there are at a time.
const attackers = 4

// TestLongGatewayFloods: whatever is said on HTTP/2 without end, who asks as one
// should is answered all the while, and afterwards; and nothing of it piles up
// (H14).
func TestLongGatewayFloods(t *testing.T) {
	f := openFortress(t)
	ask, done, before := f.calm()
	for _, c := range floods() {
		t.Run(c.name, func(t *testing.T) { f.under(t, c, ask, before) })
	}
	done()
	settled(t, before+10)
}

// under asks while there is a flood, and after it.
func (f *fortress) under(t *testing.T, c flood, ask func() error, before int) {
	enough := make(chan struct{})
	var floods, hangups atomic.Int64
	var wait sync.WaitGroup
	for range attackers {
		wait.Go(func() {
			for open := true; open; {
				switch err := f.flood(c, enough, &floods); {
				case err != nil:
					hangups.Add(1)
				case c.ends:
					t.Error("the server goes on listening")
				}
				select {
				case <-enough:
					open = false
				default:
				}
			}
		})
	}
	most := 0
	for asked := 0; asked < 20; {
		if err := ask(); err != nil {
			t.Errorf("an honest caller, meanwhile: %v", err)
		}
		most = max(most, runtime.NumGoroutine())
		if floods.Load() >= attackers { // all of them have done their worst
			asked++
		}
	}
	close(enough)
	wait.Wait()
	if err := ask(); err != nil {
		t.Errorf("an honest caller, afterwards: %v", err)
	}
	// A stream that is answered has a goroutine, of which each connection may
	// have a hundred; the rest are connections' own, on both sides. What one has
	// left may still be ending while its attacker has opened the next. A stream
	// for each of what is sent would be thousands.
	if limit := before + 2*attackers*(100+20); most > limit {
		t.Errorf("%d goroutines, want at most %d", most, limit)
	}
	t.Logf("%d floods, %d hung up on, %d goroutines", floods.Load(), hangups.Load(), most)
}

// flood opens a connection, does its worst on it, and counts that. The error is
// that the server hung up. Who is content to leave things open leaves them until
// it is enough.
func (f *fortress) flood(c flood, enough <-chan struct{}, done *atomic.Int64) error {
	s, err := f.speak(c.settings...)
	if err != nil {
		f.t.Errorf("it is not let in: %v", err)
		return err
	}
	defer s.conn.Close()
	heard := make(chan error, 1)
	if !c.unread {
		go func() {
			_, err := io.Copy(io.Discard, s.conn)
			heard <- errors.Join(io.EOF, err)
		}()
	}
	err = c.do(s)
	if err == nil {
		err = s.out.Flush()
	}
	done.Add(1)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case err != nil:
		return err
	case c.ends: // what was sent last may not have been read yet
		if err := <-heard; !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		return nil
	}
	select {
	case <-enough:
		return nil
	case err := <-heard:
		return err
	}
}

// settled waits until there are no more goroutines than so many.
func settled(t *testing.T, most int) {
	t.Helper()
	now := 0
	for range 400 {
		if now = runtime.NumGoroutine(); now <= most {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	all := make([]byte, 1<<20)
	t.Errorf("%d goroutines are left, want at most %d:\n%.4000s", now, most, all[:runtime.Stack(all, true)])
}

// TestGatewayHeads: a head that is too large is refused, and one that is just
// not is read (H14, H16).
func TestGatewayHeads(t *testing.T) {
	f := openFortress(t)
	to := &http.Transport{TLSClientConfig: f.config("http/1.1")}
	defer to.CloseIdleConnections()
	for _, c := range []struct {
		name  string
		field string
		size  int
		count int
		want  int
	}{
		{"a few fields", "X-More-%d", 10, 100, 200},
		{"very many fields", "X-More-%d", 10, 5_000, 431},
		{"a long field", "X-Long", 8_000, 1, 200},
		{"a very long field", "X-Long", 64_000, 1, 431},
		{"some cookies", "Cookie", 100, 50, 200},
		{"very many cookies", "Cookie", 100, 1_000, 431},
	} {
		req := f.request()
		req.URL.Scheme = "https"
		for i := range c.count {
			name := c.field
			if strings.Contains(name, "%") {
				name = fmt.Sprintf(name, i)
			}
			req.Header.Add(name, strings.Repeat("a", c.size))
		}
		resp, err := to.RoundTrip(req)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if resp.StatusCode != c.want {
			t.Errorf("%s: answered %d, want %d", c.name, resp.StatusCode, c.want)
		}
		_ = resp.Body.Close()
	}
}
