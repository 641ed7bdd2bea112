package attacks

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	byteorder "encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// rekeying is a connection of TLS 1.3 whose records to the server are made here:
// package crypto/tls has nothing that sends a KeyUpdate (RFC 8446, 4.6.3).
type rekeying struct {
	*tls.Conn // reads
	wire      *net.TCPConn
	out       bytes.Buffer // records that are not sent yet
	secret    []byte
	aead      cipher.AEAD
	iv        []byte
	sequence  uint64
}

// rekey opens such a connection.
func (f *fortress) rekey() *rekeying {
	f.t.Helper()
	r := &rekeying{wire: must[net.Conn](f.t)(net.Dial("tcp", f.host)).(*net.TCPConn)}
	var keys bytes.Buffer
	config := f.config("http/1.1")
	config.MinVersion, config.KeyLogWriter = tls.VersionTLS13, &keys
	r.Conn = tls.Client(r.wire, config)
	if err := errors.Join(r.SetDeadline(time.Now().Add(hangUp)), r.Handshake()); err != nil {
		f.t.Fatal(err)
	}
	if suite := r.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		f.t.Skipf("this machine prefers %s, whose records are not made here", tls.CipherSuiteName(suite))
	}
	for line := range strings.Lines(keys.String()) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "CLIENT_TRAFFIC_SECRET_0" {
			r.secret = must[[]byte](f.t)(hex.DecodeString(fields[2]))
		}
	}
	r.keys()
	return r
}

// keys makes those of the secret.
func (r *rekeying) keys() {
	block, err := aes.NewCipher(r.expand("key", 16))
	if err == nil {
		r.aead, err = cipher.NewGCM(block)
	}
	if err != nil {
		panic(err) // of a key of 16 bytes
	}
	r.iv, r.sequence = r.expand("iv", 12), 0
}

// expand is HKDF-Expand-Label without a context (RFC 8446, 7.1).
func (r *rekeying) expand(label string, size int) []byte {
	label = "tls13 " + label
	info := append(byteorder.BigEndian.AppendUint16(nil, uint16(size)), byte(len(label)))
	out, err := hkdf.Expand(sha256.New, r.secret, string(append(append(info, label...), 0)), size)
	if err != nil {
		panic(err) // of a few bytes
	}
	return out
}

// Contents of records.
const (
	ofHandshake   = 22
	ofApplication = 23
)

// record adds one (RFC 8446, 5.2).
func (r *rekeying) record(content byte, data ...byte) {
	nonce := bytes.Clone(r.iv)
	last := nonce[len(nonce)-8:]
	byteorder.BigEndian.PutUint64(last, byteorder.BigEndian.Uint64(last)^r.sequence)
	r.sequence++
	head := byteorder.BigEndian.AppendUint16([]byte{ofApplication, 3, 3}, uint16(len(data)+1+r.aead.Overhead()))
	r.out.Write(head)
	r.out.Write(r.aead.Seal(nil, nonce, append(bytes.Clone(data), content), head))
}

// update changes the keys, and asks the server to change its own, or not.
func (r *rekeying) update(back byte) {
	r.record(ofHandshake, 24, 0, 0, 1, back)
	r.secret = r.expand("traffic upd", len(r.secret))
	r.keys()
}

// send sends what was added.
func (r *rekeying) send() error {
	_, err := r.out.WriteTo(r.wire)
	return err
}

// ended waits for the server to hang up.
func (r *rekeying) ended() error {
	_, err := io.Copy(io.Discard, r.wire)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

// TestGatewayKeyUpdates: keys may be changed as often as there is something to
// say in between; whoever does nothing else is hung up on (H14). crypto/tls bears
// 16 records in a row that bring nothing.
func TestGatewayKeyUpdates(t *testing.T) {
	f := openFortress(t)
	ask, done, before := f.calm()
	t.Run("one for each byte of a request", func(t *testing.T) { // the twin
		r := f.rekey()
		defer r.wire.Close()
		text := strings.Replace(f.raw(f.token(nil)), "HTTP/1.1\r\n", "HTTP/1.1\r\nConnection: close\r\n", 1)
		for i := range len(text) {
			r.update(0)
			r.record(ofApplication, text[i])
		}
		if err := r.send(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(r), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%v, %v", resp, err)
		}
	})
	for _, c := range []struct {
		name string
		do   func(*rekeying)
	}{
		{"nothing else", func(r *rekeying) {
			for range 10_000 {
				r.update(0)
			}
		}},
		{"nothing else, each to be answered", func(r *rekeying) {
			for range 10_000 {
				r.update(1)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := f.rekey()
			defer r.wire.Close()
			c.do(r)
			_ = r.send() // it may be hung up on before all is sent
			if err := ask(); err != nil {
				t.Errorf("an honest caller, meanwhile: %v", err)
			}
			if err := r.ended(); err != nil {
				t.Errorf("the server goes on listening: %v", err)
			}
		})
	}
	done()
	settled(t, before+10)
}
