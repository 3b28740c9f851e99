// Objectstore shows a fencing guard for an object store with conditional writes:
// a holder that was paused wakes and writes, without the guard and with it.
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit/pausedholder"
)

func main() {
	var store Store
	srv := httptest.NewServer(&store)
	defer srv.Close()
	ctx := context.Background()
	guard := &Guard{client: srv.Client()}

	late := pausedholder.Run(func(_ redlock.Token, value string) error {
		_, err := guard.send(ctx, http.MethodPut, srv.URL+"/plain", value, nil)
		return err
	}).Late
	fmt.Printf("without the guard: %v; the object holds: %s\n", late, store.body("/plain"))

	late = pausedholder.Run(func(token redlock.Token, value string) error {
		return guard.Put(ctx, srv.URL+"/guarded", token, value)
	}).Late
	fmt.Printf("with the guard: refused: %t; the object holds: %s\n", late != nil, store.body("/guarded"))
}
