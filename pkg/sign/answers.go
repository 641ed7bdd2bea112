package sign

import (
	"net/http"
	"sync/atomic"
)

// answers remembers the status of the certificate authority's last answer,
// which the library folds into a text: a token that is refused must not look
// like an authority that is away.
type answers struct {
	next http.RoundTripper
	last atomic.Int32
}

// RoundTrip sends the request on and remembers the status of the answer.
func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.last.Store(0)
	response, err := a.next.RoundTrip(r)
	if err == nil {
		a.last.Store(int32(response.StatusCode)) //nolint:gosec // a status has three digits
	}
	return response, err
}

// refused reports whether the authority answered, and said no for good.
func (a *answers) refused() bool {
	status := a.last.Load()
	return status >= 400 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests
}
