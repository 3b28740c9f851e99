package node_test

import (
	"testing"

	"github.com/quorumkit/redlock/internal/testkit/locktest"
)

func TestMain(m *testing.M) { locktest.Main(m) }
