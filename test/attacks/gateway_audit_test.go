package attacks

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkRecord judges logs, which are read one after the other.
func checkRecord(t *testing.T, heads []api.Head, logs ...string) *verdict.Verdict {
	t.Helper()
	c := serve.RecordCheck{Heads: heads}
	for i, text := range logs {
		if err := c.Read(fmt.Sprintf("log-%d", i), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	return c.Verdict(time.Now())
}

// headOf is the head of a log that ends with a line of the record.
func headOf(t *testing.T, line string) api.Head {
	t.Helper()
	var l api.Line
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		t.Fatal(err)
	}
	return api.Head{Instance: l.Instance, Number: l.Number, Digest: digest.Of(digest.SHA256, []byte(line))}
}

// auditable has a gate decide about this and that, many at once, and returns the
// lines of its record.
func auditable(t *testing.T) (g *gatehouse, record []string) {
	t.Helper()
	g = openGatehouse(t)
	unknown := strings.Replace(g.image, g.image[len(g.image)-8:], "00000000", 1)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for _, change := range []func(*http.Request){
				func(*http.Request) {},
				func(r *http.Request) { body(r, g.body(unknown)) },
				func(r *http.Request) { body(r, "{}") },
				func(r *http.Request) { body(r, g.body(strings.Replace(g.image, "/gated/", "/other/", 1))) },
			}[i%2*2:] {
				req := g.request()
				change(req)
				g.do(req)
			}
		})
	}
	wait.Wait()
	for line := range strings.Lines(g.log.String()) {
		if strings.Contains(line, `"instance"`) {
			record = append(record, strings.TrimSuffix(line, "\n"))
		}
	}
	return g, record
}

// TestAuditChain: whatever is done to the record of a gate shows, from within
// or, at its end, against a head that was kept (H28).
func TestAuditChain(t *testing.T) {
	g, record := auditable(t)
	if len(record) < 20 {
		t.Fatalf("%d lines", len(record))
	}
	text := func(lines []string) string { return strings.Join(lines, "\n") + "\n" }
	last := []api.Head{headOf(t, record[len(record)-1])}
	broken := func(what string, heads []api.Head, logs ...string) {
		t.Helper()
		v := checkRecord(t, heads, logs...)
		if v.Outcome() != verdict.Refused || v.Findings[0].Code != "AUDIT_CHAIN" {
			t.Errorf("%s: %s", what, v.Headline())
			return
		}
		observe(t, "AUDIT_CHAIN")
	}
	whole := func(what string, heads []api.Head, logs ...string) *verdict.Verdict {
		t.Helper()
		v := checkRecord(t, heads, logs...)
		if v.Outcome() != verdict.Accepted || (len(v.Scope.Left) == 0) != (len(heads) > 0) {
			t.Errorf("%s: %s, left %q, %+v", what, v.Headline(), v.Scope.Left, v.Findings)
		}
		return v
	}
	v := whole("as it is", nil, g.log.String())
	for _, said := range []string{"accepted 4", "refused 4", "promoter 8", "MISSING 4", "NOT_GRANTED 8", "USAGE 8"} {
		if !strings.Contains(strings.Join(v.Notes, "\n"), said) {
			t.Errorf("the counts lack %q: %q", said, v.Notes)
		}
	}
	whole("with its head", last, g.log.String())
	whole("the record alone", last, text(record))
	whole("with lines of others", last, "starting\n"+strings.Join(record, "\nnot of us\n{\"msg\":\"other\",\"instance\":7}\n")+"\n{}")
	whole("as a collector has it", last, "2026-11-22T10:00:00.000000000Z stderr F "+strings.Join(record, "\n2026-11-22T10:00:00.000000000Z stderr F "))
	whole("in two logs", last, text(record[:7]), text(record[7:]))
	whole("from a head on", append(last, headOf(t, record[6])), text(record[7:]))

	for i := range len(record) - 1 {
		lines := slices.Clone(record)
		for _, c := range []struct{ what, old, new string }{
			{"another outcome", `"refused"`, `"accepted"`}, {"another outcome", `"accepted"`, `"refused"`}, {"another caller", `"promoter"`, `"somebody"`}, {"another time", `"time":"2`, `"time":"3`},
			{"a space", `,"msg"`, `, "msg"`},
		} {
			if lines[i] = strings.Replace(record[i], c.old, c.new, 1); lines[i] != record[i] {
				broken(fmt.Sprintf("%s in line %d", c.what, i+1), nil, text(lines))
			}
		}
		broken(fmt.Sprintf("line %d is no JSON", i+1), nil, text(append(append(slices.Clone(record[:i]), record[i][1:]), record[i+1:]...)))
		broken(fmt.Sprintf("without line %d", i+1), nil, text(slices.Delete(slices.Clone(record), i, i+1)))
		broken(fmt.Sprintf("line %d twice", i+1), nil, text(slices.Insert(slices.Clone(record), i, record[i])))
		swapped := slices.Clone(record)
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
		broken(fmt.Sprintf("lines %d and %d swapped", i+1, i+2), nil, text(swapped))
		broken(fmt.Sprintf("cut off after line %d", i+1), last, text(record[:i+1]))
		if i > 0 {
			broken(fmt.Sprintf("the first %d lines put away", i), last, text(record[i:]))
		}
	}
	edited := slices.Clone(record)
	edited[len(edited)-1] = strings.Replace(edited[len(edited)-1], `"time":"2`, `"time":"3`, 1)
	broken("another last line", last, text(edited))
	whole("another last line, of which nobody kept a head", nil, text(edited))
	whole("cut off, of which nobody kept a head", nil, text(record[:9]))
	broken("a record that another gate wrote", last, func() string { _, other := auditable(t); return text(other) }())
	broken("nothing", nil, "")
	broken("nothing of us", nil, "{\"msg\":\"decision\"}\n")
	one := last[0]
	one.Digest = headOf(t, record[3]).Digest
	broken("a head of another line", []api.Head{one}, text(record))
}

// sink is a log that can be made to fail, or to stand still.
type sink struct {
	lines
	mu     sync.Mutex // owns how
	how    string
	awaken chan struct{}
}

func (s *sink) set(how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.how = how
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	how := s.how
	s.mu.Unlock()
	switch how {
	case "full":
		n, _ := s.lines.Write(p[:len(p)/2])
		return n, errors.New("no space left on device")
	case "still":
		<-s.awaken
	}
	return s.lines.Write(p)
}

// TestAuditLogFails: what cannot be written down is not answered; once it can
// be again the record goes on, and holds.
func TestAuditLogFails(t *testing.T) {
	out := &sink{awaken: make(chan struct{})}
	g := openGatehouse(t, func(g *gatehouse) { g.record = out })
	ask := func(want int) {
		t.Helper()
		began := time.Now()
		if status, codes, raw := g.do(g.request()); status != want {
			t.Errorf("%d %v, want %d: %s", status, codes, want, raw)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("it took %s, longer than a caller waits", took)
		}
	}
	ask(200)
	out.set("full")
	ask(503)
	ask(503)
	out.set("")
	ask(200)
	out.set("still")
	ask(503)
	out.set("")
	close(out.awaken)
	for range 100 { // the line that stood still is written first
		if status, _, _ := g.do(g.request()); status == http.StatusOK {
			break
		}
	}
	ask(200)
	v := checkRecord(t, nil, out.String())
	if v.Outcome() != verdict.Accepted {
		t.Errorf("%s: %+v\n%s", v.Headline(), v.Findings, out.String())
	}
	// The record before the failure is missed when it is taken away.
	_, rest, _ := strings.Cut(out.String(), "\n\n")
	if v := checkRecord(t, nil, rest); v.Outcome() != verdict.Refused {
		t.Errorf("without what was before: %s", v.Headline())
	}
}

// TestAuditRead: an auditor reads what is granted, the newest first, and a head
// by which the log can be held.
func TestAuditRead(t *testing.T) {
	g := openGatehouse(t, func(g *gatehouse) { g.verbs = "verify, promote, audit" })
	unknown := strings.Replace(g.image, g.image[len(g.image)-8:], "00000000", 1)
	for _, image := range []string{g.image, unknown, g.image} {
		req := g.request()
		body(req, g.body(image))
		g.do(req)
	}
	read := func(at *gatehouse, query string) (int, api.Audit, string) {
		req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.host+"/v1/audit"+query, nil))
		req.Header.Set("Authorization", "Bearer "+at.token(nil))
		status, _, raw := at.do(req)
		var told api.Audit
		_ = json.Unmarshal([]byte(raw), &told)
		return status, told, raw
	}
	status, told, raw := read(g, "")
	if status != 200 || len(told.Decisions) != 3 || told.Decisions[1].Outcome != "refused" || !told.Decisions[0].Cached || told.Decisions[2].Cached {
		t.Fatalf("%d %s", status, raw)
	}
	if v := checkRecord(t, []api.Head{told.Head}, g.log.String()); v.Outcome() != verdict.Accepted || len(v.Scope.Left) > 0 {
		t.Errorf("its head is not that of the log: %s, left %q", v.Headline(), v.Scope.Left)
	}
	for i, l := range told.Decisions[:2] {
		before := must[[]byte](t)(json.Marshal(told.Decisions[i+1]))
		if !l.Previous.Equal(digest.Of(digest.SHA256, before)) {
			t.Errorf("line %d does not follow %s", l.Number, before)
		}
	}
	_, about, _ := strings.Cut(unknown, "@")
	for _, c := range []struct {
		query     string
		status, n int
	}{
		{"?digest=" + about, 200, 1}, {"?limit=2", 200, 2}, {"?limit=1000", 200, 3}, {"?digest=" + about + "&limit=1", 200, 1}, {"?digest=sha256:" + strings.Repeat("1", 64), 200, 0},
		{"?limit=1001", 422, 0}, {"?limit=0", 422, 0}, {"?limit=x", 422, 0}, {"?digest=" + about[:20], 422, 0}, {"?digest=", 422, 0}, {"?digest=a&digest=b", 422, 0}, {"?principal=eve", 422, 0}, {"?%zz", 422, 0},
		{"?" + strings.Repeat("a", 2000), 422, 0},
	} {
		if status, told, raw := read(g, c.query); status != c.status || len(told.Decisions) != c.n {
			t.Errorf("%.100s: %d, %d decisions, want %d, %d: %.300s", c.query, status, len(told.Decisions), c.status, c.n, raw)
		}
	}
	// Nobody reads who is not granted it.
	without := openGatehouse(t)
	if status, _, raw := read(without, ""); status != 403 || !strings.Contains(raw, "NOT_GRANTED") {
		t.Errorf("who may only ask: %d %s", status, raw)
	}
}
