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
	// maxConnections bounds the connections of callers. Each costs up to 80 KiB,
	// and what deploy/gate.yaml gives the service is enough for all of them.
	maxConnections = 1500
	// maxAge is how long a connection is used: after it, the next answer closes it.
	maxAge = 5 * time.Minute
)

// connections bounds how many there are at a time. Beyond that a new one is
// taken, and another closed: the oldest that has brought no whole request of a
// caller yet, or else the one that has brought none for the longest. Whoever
// opens connections and asks nothing closes their own.
type connections struct {
	net.Listener
	most  int
	clock func() time.Time

	mu           sync.Mutex // owns the rest, and in and at of each connection
	fresh, known list.List  // of *connection
}

// connection is one of them, while it is open.
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

// CloseWrite lets the other side read what it was told before all is closed.
func (c *connection) CloseWrite() error {
	if half, can := c.Conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return nil
}

// heard says that it has brought a whole request of a caller.
func (c *connection) heard() {
	c.among.mu.Lock()
	defer c.among.mu.Unlock()
	if c.in == nil { // it was closed
		return
	}
	c.in.Remove(c.at)
	c.in = &c.among.known
	c.at = c.in.PushBack(c)
}

// connectionKey is the key of the connection of a request.
type connectionKey struct{}

// context is what a server calls for each new connection.
func (*connections) context(ctx context.Context, conn net.Conn) context.Context {
	if above, is := conn.(interface{ NetConn() net.Conn }); is {
		conn = above.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, conn)
}

// over is the connection of a request; nil where it is not one of ours.
func over(r *http.Request) *connection {
	one, _ := r.Context().Value(connectionKey{}).(*connection)
	return one
}

// isOld reports whether the connection of a request has been used long enough.
func isOld(r *http.Request, now time.Time) bool {
	one := over(r)
	return one != nil && now.Sub(one.born) > maxAge
}
