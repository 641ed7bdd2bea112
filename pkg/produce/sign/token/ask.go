package token

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// ask sends a request and returns the body of the response. Errors contain no
// part of it, because answers are secrets.
func ask(ctx context.Context, rt http.RoundTripper, r *http.Request) (body []byte, header http.Header, err error) {
	place := r.URL.Scheme + "://" + r.URL.Host
	response, err := transport.Client(rt).Do(r.WithContext(ctx))
	if err != nil {
		return nil, nil, unavailable(place, withoutAddress(err))
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxToken+1))
	switch {
	case err != nil:
		return nil, nil, unavailable(place, err)
	case len(body) > maxToken:
		return nil, nil, refused("the answer of %s has more than %d bytes", place, maxToken)
	case response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusRequestTimeout:
		return nil, nil, unavailable(place, fmt.Errorf("the service answered %d", response.StatusCode))
	case response.StatusCode != http.StatusOK:
		return body, response.Header, &statusError{place: place, status: response.StatusCode}
	}
	return body, response.Header, nil
}

// withoutAddress is the cause of a failed request without its address: the
// path and query may be secret.
func withoutAddress(err error) error {
	if wrapped, is := errors.AsType[*url.Error](err); is {
		return wrapped.Err
	}
	return err
}

// statusError reports an answer that is a refusal.
type statusError struct {
	place  string
	status int
}

// Error names place and status.
func (e *statusError) Error() string { return fmt.Sprintf("%s answered %d", e.place, e.status) }

// hint turns a refusal into a finding with advice.
func hint(err error, what string) error {
	if no, is := errors.AsType[*statusError](err); is {
		return refused("%s answered %d; %s", no.place, no.status, what)
	}
	return err
}
