package serve

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestConnections: of too many connections the oldest is closed that has brought
// no request, or else the one that has brought none for the longest.
func TestConnections(t *testing.T) {
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &connections{Listener: front, most: 2, clock: time.Now}
	server := &http.Server{ConnContext: c.context, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { connectionOf(r).completedRequest() })}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(c) }()
	open := func() net.Conn {
		conn, err := net.Dial("tcp", front.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	closed := func(conn net.Conn) {
		t.Helper()
		if said, err := io.ReadAll(conn); err != nil || len(said) > 0 {
			t.Errorf("%q, %v", said, err)
		}
	}
	answered := func(conn net.Conn) {
		t.Helper()
		if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: gate\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 4096)); err != nil || n == 0 {
			t.Fatalf("no answer: %v", err)
		}
	}
	first, second := open(), open()
	answered(first)
	third := open()
	closed(second)
	fourth := open()
	closed(third) // though what the first brought is longer ago
	answered(fourth)
	answered(first)
	fifth := open()
	closed(fourth)
	answered(first)
	answered(fifth)
	if known, fresh := c.known.Len(), c.fresh.Len(); known != 2 || fresh != 0 {
		t.Errorf("%d and %d connections are counted", known, fresh)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	<-ended
	if n := c.known.Len() + c.fresh.Len(); n != 0 {
		t.Errorf("%d connections are counted after the end", n)
	}
}
