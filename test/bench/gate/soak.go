package gate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/waybill-release/waybill/test/bench"
)

// soak sends very many requests of all kinds, and looks at the service's memory
// now and then: most ask about images that were decided about, some about
// images that are not there, in ever new repositories, some make no sense, and
// some come from nobody.
func (s *scene) soak(ctx context.Context) (bench.Sample, error) {
	once := s.bodies[:min(known, len(s.bodies))]
	if err := s.all(ctx, once, s.Abreast, accepted).err; err != nil {
		return bench.Sample{}, err
	}
	facts := map[string]int{}
	before, err := s.service.look(ctx)
	if err != nil {
		return bench.Sample{}, err
	}
	began, done := time.Now(), 0
	var last looks
	for _, until := range marks(s.N) {
		out := sent{}
		s.each(until-done, s.Abreast, &out, func(i int) error { return s.any(ctx, once, done+i) })
		if out.err != nil {
			return bench.Sample{}, out.err
		}
		done = until
		if last, err = s.service.look(ctx); err != nil {
			return bench.Sample{}, err
		}
		facts[fmt.Sprintf(factResident, until)] = int(last.resident >> 10)
		facts[fmt.Sprintf(factHeap, until)] = int(last.heap >> 10)
		facts[fmt.Sprintf(factGoroutines, until)] = last.goroutines
	}
	facts[FactHits] = int(10_000 * (last.hits - before.hits) / max(1, last.decisions-before.decisions))
	return bench.Sample{Wall: time.Since(began), CPU: last.cpu - before.cpu, Peak: last.peak, Facts: facts}, nil
}

// marks are when to look: at each power of ten from ten thousand, and at the
// end.
func marks(n int) []int {
	var list []int
	for at := 10_000; at < n; at *= 10 {
		list = append(list, at)
	}
	return append(list, n)
}

// any sends the i-th request, which is of the kind that its number says.
func (s *scene) any(ctx context.Context, once [][]byte, i int) error {
	content, want := once[i%len(once)], http.StatusOK
	kind := i % 20
	switch kind {
	case 0: // an image that is not there
		at := image{Repository: fmt.Sprintf("%s/nobody-%d", staging, i), Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(fmt.Append(nil, i)))}
		var err error
		if content, err = body(s.registry.Name, at); err != nil {
			return err
		}
		want = http.StatusForbidden
	case 1:
		content, want = bytes.Replace(content, []byte("verify"), []byte("believe"), 1), http.StatusUnprocessableEntity
	}
	req, err := s.request(ctx, content)
	if err != nil {
		return err
	}
	if kind == 2 { // somebody else
		req.Header.Set("Authorization", "Bearer "+s.token[:len(s.token)-8]+"AAAAAAAA")
		want = http.StatusUnauthorized
	}
	status, raw, err := s.do(req)
	if err == nil && status != want {
		err = fmt.Errorf("request %d was answered %d, want %d: %.500s", i, status, want, raw)
	}
	return err
}
