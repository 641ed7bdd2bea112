// Package far is services at some distance, on this machine: connections that
// take as long as a round trip, and a registry that counts what it is asked.
package far

import (
	"net"
	"time"
)

// Listener is a listener at some distance: whatever goes either way arrives half a
// round trip later, in order, and without one waiting for the answer to the
// other; and a connection takes one round trip to be made. Kernels do the same
// where they are told to, which takes rights and modules that not every machine
// has.
type Listener struct {
	net.Listener
	Trip time.Duration // there and back
}

// Accept takes a connection from afar.
func (f Listener) Accept() (net.Conn, error) {
	wire, err := f.Listener.Accept()
	if err != nil || f.Trip == 0 {
		return wire, err
	}
	served, line := net.Pipe()
	made := time.Now().Add(f.Trip)
	go carry(line, wire, f.Trip/2, made)
	go carry(wire, line, f.Trip/2, made)
	return served, nil
}

// piece is bytes that arrive at a time.
type piece struct {
	bytes []byte
	due   time.Time
}

// underWay is how many pieces can be on a line at once.
const underWay = 4096

// carry brings everything from one end to the other, later. Nothing sets out
// before the connection is made.
func carry(to, from net.Conn, later time.Duration, made time.Time) {
	line := make(chan piece, underWay)
	go func() {
		defer to.Close()
		for p := range line {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				_ = from.Close() // and its reader ends, too
				for range line { // what is left goes nowhere
				}
				return
			}
		}
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			sets := time.Now()
			if sets.Before(made) {
				sets = made
			}
			line <- piece{append([]byte(nil), buffer[:n]...), sets.Add(later)}
		}
		if err != nil {
			close(line)
			return
		}
	}
}
