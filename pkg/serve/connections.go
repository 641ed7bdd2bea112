package serve

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxConnections bounds the connections of callers. Each costs up to 80
	// KiB, which the memory limit in deploy/gate.yaml allows for.
	maxConnections = 1500
	// maxAge is the longest lifetime of a connection; the next answer closes
	// it.
	maxAge = 5 * time.Minute
)

// connections bounds the open connections. At the limit, a new one is accepted
// and another closed: the oldest that has not completed a request yet, or else
// the one idle for the longest. A client that opens connections without
// requests closes only its own.
type connections struct {
	net.Listener
	most  int
	clock func() time.Time

	mu           sync.Mutex // guards the fields below, and in and at of each connection
	fresh, known list.List  // of *connection
}

type connection struct {
	net.Conn
	among *connections
	born  time.Time
	in    *list.List // nil once it is closed
	at    *list.Element
}

// Accept implements [net.Listener].
func (c *connections) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	one := &connection{Conn: conn, among: c, born: c.clock()}
	c.mu.Lock()
	var out *connection
	if c.fresh.Len()+c.known.Len() >= c.most {
		front := c.fresh.Front()
		if front == nil {
			front = c.known.Front()
		}
		out, _ = front.Value.(*connection)
	}
	one.in, one.at = &c.fresh, c.fresh.PushBack(one)
	c.mu.Unlock()
	if out != nil {
		_ = out.Close()
	}
	return one, nil
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.among.mu.Lock()
	if c.in != nil {
		c.in.Remove(c.at)
		c.in = nil
	}
	c.among.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite lets the other side read the answer before the connection closes.
func (c *connection) CloseWrite() error {
	if half, can := c.Conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return nil
}

func (c *connection) completedRequest() {
	c.among.mu.Lock()
	defer c.among.mu.Unlock()
	if c.in == nil { // already closed
		return
	}
	c.in.Remove(c.at)
	c.in = &c.among.known
	c.at = c.in.PushBack(c)
}

type connectionKey struct{}

// context is called by a server for each new connection.
func (*connections) context(ctx context.Context, conn net.Conn) context.Context {
	if above, is := conn.(interface{ NetConn() net.Conn }); is {
		conn = above.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, conn)
}

// connectionOf returns the connection of a request; nil if it is not one of ours.
func connectionOf(r *http.Request) *connection {
	one, _ := r.Context().Value(connectionKey{}).(*connection)
	return one
}

// isOld reports whether the connection of a request has reached its maximum
// age.
func isOld(r *http.Request, now time.Time) bool {
	one := connectionOf(r)
	return one != nil && now.Sub(one.born) > maxAge
}
