package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func TestPublic(t *testing.T) {
	for _, bad := range []string{
		"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "10.0.0.1", "172.16.0.1", "192.168.1.1", "::ffff:10.0.0.1",
		"169.254.169.254", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1",
		"224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "::127.0.0.1",
		"2001:0:7f00:1::", "192.88.99.1", "fec0::1",
	} {
		if checkPublic(netip.MustParseAddr(bad)) == nil {
			t.Errorf("%s passes for public", bad)
		}
	}
	if checkPublic(netip.Addr{}) == nil {
		t.Error("no address passes for public")
	}
	for _, good := range []string{"8.8.8.8", "140.82.112.3", "2606:4700::1111", "172.32.0.1", "100.128.0.1", "::ffff:8.8.8.8"} {
		if err := checkPublic(netip.MustParseAddr(good)); err != nil {
			t.Error(err)
		}
	}
}

// echo is a host on loopback.
func echo(t *testing.T) net.Listener {
	t.Helper()
	l := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// ask sends one request to a proxy and returns the status, and what came
// through the tunnel.
func ask(t *testing.T, at, request, through string) (int, string) {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, request)
	in := bufio.NewReader(c)
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, ""
	}
	if answer.StatusCode != http.StatusOK {
		return answer.StatusCode, ""
	}
	fmt.Fprint(c, through)
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(raw)
}

func TestProxy(t *testing.T) {
	host, other := echo(t), echo(t)
	at := host.Addr().String()
	connect := func(a string) string { return "CONNECT " + a + " HTTP/1.1\r\nHost: " + a + "\r\n\r\n" }
	for _, r := range []struct {
		name, request string
		permit        bool
		status        int
		reason        string
	}{
		{"declared, and let be public", connect(at), true, 200, ""},
		{"declared, and at this machine", connect(at), false, 403, "this machine's"},
		{"declared as another", connect(other.Addr().String()), true, 403, "did not declare"},
		{"not CONNECT", "GET http://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n", true, 403, "only CONNECT"},
		{"two hosts", "CONNECT " + other.Addr().String() + " HTTP/1.1\r\nHost: " + at + "\r\n\r\n", true, 403, "did not declare"},
		{"an escape", connect("\x1b[2J:443"), true, 0, ""},
		{"a head without end", "CONNECT " + at + " HTTP/1.1\r\nX: " + strings.Repeat("x", 2*maxHead), true, 0, ""},
	} {
		p := newProxy([]string{at})
		if r.permit {
			p.permit = func(netip.Addr) error { return nil }
		}
		l := listen(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.serve(t.Context(), l)
		}()
		status, echoed := ask(t, l.Addr().String(), r.request, "hello")
		if status != r.status || (status == 200) != (echoed == "hello") {
			t.Errorf("%s: status %d, echo %q, want %d", r.name, status, echoed, r.status)
		}
		l.Close()
		<-done
		if r.status == 0 {
			continue
		}
		var report Report
		p.tell(&report)
		asked := report.Asked
		if len(asked) != 1 || asked[0].Allowed != (r.status == 200) || !strings.Contains(asked[0].Reason, r.reason) {
			t.Errorf("%s: the record is %v, want reason %q", r.name, asked, r.reason)
		}
	}
}

// TestProxyNamesFew: a step that asks for host after host has the first ones
// named and the others counted; what is allowed is always named.
func TestProxyNamesFew(t *testing.T) {
	p := newProxy([]string{"declared.example.test:443"})
	for i := range maxRefused + 500 {
		for range 2 {
			p.note(fmt.Sprintf("%d.example.test:443", i), errors.New("no"))
		}
	}
	p.note("declared.example.test:443", nil)
	var report Report
	p.tell(&report)
	if len(report.Asked) != maxRefused+1 || !report.Asked[maxRefused].Allowed || report.RefusedMore != 1000 || report.Asked[0].Times != 2 {
		t.Errorf("%d are named, the last %v; %d more", len(report.Asked), report.Asked[len(report.Asked)-1], report.RefusedMore)
	}
	var log strings.Builder
	report.Print(&log)
	if n := strings.Count(log.String(), "the step asked to connect to "); n != maxRefused+2 || !strings.HasSuffix(log.String(), "the step asked to connect to other hosts 1000 times, refused\n") {
		t.Errorf("%d hosts in the log\n%s", n, log.String())
	}
	few := newProxy(nil)
	for i := range maxRefused {
		few.note(fmt.Sprintf("%d.example.test:443", i), errors.New("no"))
	}
	report = Report{}
	if few.tell(&report); len(report.Asked) != maxRefused || report.RefusedMore != 0 {
		t.Errorf("the twin: %d are named, %d more", len(report.Asked), report.RefusedMore)
	}
}
