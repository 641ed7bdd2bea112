package promote

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// resultsSchema names the form of the results of a shard: lines of JSON, of
// which the first is a head, and each other an [Item], in the order of the
// plan and of the destinations.
const resultsSchema = "waybill/promotion-results/v1"

const (
	// maxHead limits the first line of results, maxItem each other line.
	maxHead = 16 << 20
	maxItem = 64 << 10
	// maxAttempts limits how often a shard can write results.
	maxAttempts = 9999
)

// resultsName matches the names that [resultsFile.String] writes.
var resultsName = pattern.Lazy(`\Ashard-([0-9]{3,5})-of-([0-9]{3,5})\.attempt-([0-9]{4})\.jsonl\z`)

// resultsFile is one attempt of one shard.
type resultsFile struct {
	shard   promotionplan.Shard
	attempt int // from 1
}

// String is the name of the object.
func (f resultsFile) String() string {
	return fmt.Sprintf("shard-%03d-of-%03d.attempt-%04d.jsonl", f.shard.Index, f.shard.Of, f.attempt)
}

func parseResultsName(name string) (resultsFile, bool) {
	m := resultsName().FindStringSubmatch(name)
	if m == nil {
		return resultsFile{}, false
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(m[i+1]) // digits only, and few of them
	}
	f := resultsFile{promotionplan.Shard{Index: n[0], Of: n[1]}, n[2]}
	return f, f.String() == name && f.shard.Index < f.shard.Of && f.attempt > 0
}

// resultsHead is the first line of the results.
type resultsHead struct {
	Schema string              `json:"schema"`
	Plan   digest.Digest       `json:"plan"`
	Shard  promotionplan.Shard `json:"shard"`
	Time   time.Time           `json:"time"`
	Policy digest.Digest       `json:"policy,omitzero"`
	// TrustRoot is the one by which evidence was judged.
	TrustRoot digest.Digest `json:"trustRoot,omitzero"`
	// Items counts the lines that follow, Good those that are good.
	Items int `json:"items"`
	Good  int `json:"good"`
	// Findings counts the images that are not there, by code.
	Findings map[verdict.Code]int `json:"findings,omitempty"`
	// Waived, Warnings and Notes are those of the verdict, so exceptions stay
	// visible.
	Waived   []verdict.Waiver  `json:"waived,omitempty"`
	Warnings []verdict.Finding `json:"warnings,omitempty"`
	Notes    []string          `json:"notes,omitempty"`
	// Lab is the sentence about the trust root of a lab.
	Lab string `json:"lab,omitempty"`
}

// ResultsPlace is where the results of a plan are, below the place of all
// results.
func ResultsPlace(place string, plan digest.Digest) string {
	return strings.TrimSuffix(place, "/") + "/" + plan.Hex()[:12] + "/"
}

// WriteResults writes the results of a shard to the place of the plan's
// results, and returns the name of the object. Each attempt has its own
// object, which is never overwritten: [Shards.Merge] reads them all.
func (a Applied) WriteResults(ctx context.Context, to store.Writer, p promotionplan.Plan, s promotionplan.Shard) (string, error) {
	s.Of = max(s.Of, 1)
	raw, err := a.results(p.Digest(), s)
	if err != nil {
		return "", err
	}
	for n := 1; n <= maxAttempts; n++ {
		name := resultsFile{s, n}.String()
		err = to.Put(ctx, name, int64(len(raw)), bytes.NewReader(raw), store.PutOptions{IfAbsent: true, MediaType: "application/jsonl"})
		if !errors.Is(err, store.ErrExists) {
			return name, err
		}
	}
	return "", err
}

func (a Applied) results(plan digest.Digest, s promotionplan.Shard) ([]byte, error) {
	v := a.Verdict
	head := resultsHead{
		Schema: resultsSchema, Plan: plan, Shard: s, Time: v.Time, Policy: v.Policy, TrustRoot: v.TrustRoot,
		Items: len(a.Items), Waived: v.Waived, Warnings: v.Warnings, Notes: v.Notes, Lab: v.Lab(), Findings: map[verdict.Code]int{},
	}
	for _, i := range a.Items {
		if i.State.Good() {
			head.Good++
		} else {
			head.Findings[i.Code]++
		}
	}
	var buf bytes.Buffer
	lines := json.NewEncoder(&buf)
	err := lines.Encode(head)
	for i := 0; i < len(a.Items) && err == nil; i++ {
		err = lines.Encode(a.Items[i])
	}
	if err != nil {
		return nil, fmt.Errorf("writing the results of shard %s: %w", s, err)
	}
	return buf.Bytes(), nil
}

// readResults reads results line by line, and passes each item to take. It
// refuses everything that [Applied.WriteResults] would not write.
func readResults(r io.Reader, head func(resultsHead) error, take func(Item) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxHead)
	if !lines.Scan() {
		return cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
	}
	var h resultsHead
	if err := strictjson.Unmarshal(lines.Bytes(), &h, strictjson.MaxSize(maxHead)); err != nil {
		return cmp.Or(lines.Err(), err) // the line may be half of one, if the body broke off
	}
	if h.Schema != resultsSchema {
		return fmt.Errorf("schema %q: want %s", h.Schema, resultsSchema)
	}
	if err := head(h); err != nil {
		return err
	}
	n, good := 0, 0
	for lines.Scan() {
		var i Item
		if err := strictjson.Unmarshal(lines.Bytes(), &i, strictjson.MaxSize(maxItem)); err != nil {
			return fmt.Errorf("line %d: %w", n+2, cmp.Or(lines.Err(), err))
		}
		if err := i.check(); err != nil {
			return fmt.Errorf("line %d: %w", n+2, err)
		}
		if err := take(i); err != nil {
			return fmt.Errorf("line %d: %w", n+2, err)
		}
		if n++; i.State.Good() {
			good++
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if n != h.Items || good != h.Good {
		return fmt.Errorf("%d items, %d of them good, but the head says %d and %d", n, good, h.Items, h.Good)
	}
	return nil
}

// check refuses an item that no run writes.
func (i Item) check() error {
	switch i.State {
	case Done, Present:
		if i.Code != "" {
			return fmt.Errorf("state %s with the code %q, which such an item does not have", i.State, i.Code)
		}
	case Refused, Failed:
		if !slices.Contains(verdict.Codes(), i.Code) {
			return fmt.Errorf("state %s with the unknown code %q", i.State, i.Code)
		}
	default:
		return fmt.Errorf("unknown state %q", i.State)
	}
	return nil
}
