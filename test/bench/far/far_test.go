package far

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestFar: a line that is long loses nothing, and keeps the order.
func TestFar(t *testing.T) {
	for _, trip := range []time.Duration{0, 4 * time.Millisecond} {
		near, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			all, _ := io.ReadAll(r.Body)
			_, _ = w.Write(all)
		})}
		go func() { _ = server.Serve(Listener{near, trip}) }()
		client := &http.Client{Transport: &http.Transport{}}
		for i := range 3 {
			sent := strings.Repeat(fmt.Sprintf("line %d of %s\n", i, trip), 1+i*20_000)
			began := time.Now()
			resp, err := client.Post("http://"+near.Addr().String(), "text/plain", strings.NewReader(sent))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if err != nil || string(got) != sent {
				t.Errorf("%s: %d bytes came back of %d, %v", trip, len(got), len(sent), err)
			}
			if took := time.Since(began); took < trip {
				t.Errorf("an answer took %s over a line of %s", took, trip)
			}
			_ = resp.Body.Close()
		}
		client.CloseIdleConnections()
		_ = server.Close()
	}
}

// TestFarEnds: who hangs up is noticed at the other end.
func TestFarEnds(t *testing.T) {
	near, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	client, err := net.Dial("tcp", near.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	served, err := Listener{near, 2 * time.Millisecond}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(client, "good bye")
	_ = client.Close()
	if line, err := bufio.NewReader(served).ReadString('\n'); err != nil || line != "good bye\n" {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := io.ReadAll(served); err != nil {
		t.Error(err)
	}
}

func TestSum(t *testing.T) {
	all, total := Sum(map[string]int{"GET blobs": 2}, map[string]int{"GET blobs": 1, "GET tags": 4})
	if total != 7 || all["GET blobs"] != 3 || all["GET tags"] != 4 {
		t.Error(all, total)
	}
	for path, want := range map[string]string{"/v2/": "greeting", "/v2/a/manifests/v1": "manifests", "/v2/a/b/blobs/uploads/": "blobs", "/v2/a/referrers/x": "referrers", "/v2/a/tags/list": "tags"} {
		if got := kind(path); got != want {
			t.Errorf("%s is about %s, want %s", path, got, want)
		}
	}
}
