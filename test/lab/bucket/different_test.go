package bucket_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab/bucket"
)

// differing opens a bucket of a service that differs.
func differing(t *testing.T, language string, differ func(*bucket.Server)) *cloud.Bucket {
	t.Helper()
	at, err := cloud.Open(language+"+"+serve(t, t.TempDir(), differ)+"/"+testBucket+"/v1/", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestUnconditional: a service that ignores conditions is refused before
// anything is written, with and without a test write, and keeps nothing of the
// check; one that checks them is sent nothing that it keeps.
func TestUnconditional(t *testing.T) {
	for _, language := range []string{"gs", "s3"} {
		for ignores, want := range map[bool]verdict.Code{true: verdict.NotWritable, false: ""} {
			at := differing(t, language, func(s *bucket.Server) { s.Unconditional = ignores })
			for name, check := range map[string]func() error{
				"asked": func() error { return at.MayWrite(t.Context()) }, "probed": func() error { return at.ProbeWrite(t.Context()) },
			} {
				err := check()
				var refused *verdict.Error
				if got := errors.As(err, &refused); got != (want != "") || got && refused.Finding.Code != want || !got && err != nil {
					t.Errorf("%s, conditions ignored %t, %s: %v, want %q", language, ignores, name, err, want)
				}
				if left, err := at.List(t.Context()); err != nil || len(left) != 0 {
					t.Errorf("%s, conditions ignored %t, %s: left %v, %v", language, ignores, name, left, err)
				}
			}
		}
	}
}

// TestRemembers: a service that refuses a new object because of a removed one is
// not said to have the object.
func TestRemembers(t *testing.T) {
	for remembers, want := range map[bool]string{true: "older version was removed", false: ""} {
		url := serve(t, t.TempDir(), func(s *bucket.Server) { s.Remembers = remembers })
		at, err := cloud.Open("s3+"+url+"/"+testBucket+"/v1/", http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		put := func() error {
			return at.Put(t.Context(), "f", 4, strings.NewReader("good"), store.PutOptions{IfAbsent: true})
		}
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if err := put(); !errors.Is(err, store.ErrExists) {
			t.Errorf("writing over what is there: %v, want ErrExists", err)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url+"/"+testBucket+"/v1/f", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		switch err := put(); {
		case want == "" && err != nil:
			t.Errorf("writing where an object was removed: %v", err)
		case want != "" && (err == nil || errors.Is(err, store.ErrExists) || !strings.Contains(err.Error(), want)):
			t.Errorf("writing where the service remembers: %v, want %q", err, want)
		}
	}
}
