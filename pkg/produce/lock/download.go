package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// download computes the digest of the file at an address. The file is not
// stored: the build downloads it again and verifies it.
func (r Request) download(ctx context.Context, address string) (plan.DownloadLock, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return plan.DownloadLock{}, verdict.Wrap(verdict.ConfigParse, address, err)
	}
	// The digest is of the stored bytes, not of a transfer encoding.
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := transport.Client(r.Transport).Do(req)
	if err != nil {
		return plan.DownloadLock{}, unreachable(address, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return plan.DownloadLock{}, verdict.Refuse(verdict.Usage, address, "the server has no such file (%s); correct it in %s", resp.Status, plan.ConfigName)
	default:
		return plan.DownloadLock{}, unreachable(address, fmt.Errorf("the server answered %s", resp.Status))
	}
	if resp.ContentLength > plan.MaxDownload {
		return plan.DownloadLock{}, tooLarge(address)
	}
	sum, size, err := digest.SumSHA256(io.LimitReader(resp.Body, plan.MaxDownload+1))
	switch {
	case err != nil:
		return plan.DownloadLock{}, unreachable(address, err)
	case size > plan.MaxDownload:
		return plan.DownloadLock{}, tooLarge(address)
	case size == 0:
		return plan.DownloadLock{}, verdict.Refuse(verdict.Usage, address, "the file is empty; correct it in %s", plan.ConfigName)
	}
	return plan.DownloadLock{URL: address, Size: size, Digest: sum}, nil
}

// unreachable separates errors that a retry cannot fix, like a forbidden
// redirect or an invalid address, from an unreachable server.
func unreachable(address string, err error) error {
	if _, is := errors.AsType[*verdict.UsageError](err); is {
		return err
	}
	if stray, is := errors.AsType[*transport.RedirectError](err); is {
		return &verdict.Error{Finding: verdict.Find(verdict.Usage, address, "%v; use the address to which it redirects", stray), Cause: err}
	}
	return &verdict.UnavailableError{Place: address, Op: "fetching", Err: err}
}

func tooLarge(address string) error {
	return verdict.Refuse(verdict.Limit, address, "more than %d bytes; use a smaller file", int64(plan.MaxDownload))
}
