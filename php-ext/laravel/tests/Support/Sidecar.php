<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Support;

use Pillion\Tests\Support\FakeLlm;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\SidecarProcess;

/** A sidecar for the whole run, for the library; it has the {@see FakeServer} configured. */
final class Sidecar
{
    private static ?SidecarProcess $shared = null;

    /** Returns the socket of the sidecar; starts the sidecar if necessary. */
    public static function socket(): string
    {
        if (self::$shared === null) {
            self::$shared = new SidecarProcess([
                ['label' => 'dice', 'url' => FakeServer::url()],
                ['label' => 'dmcp', 'url' => FakeServer::url()],
            ], FakeLlm::forSidecar() + ['PILLION__TOOLS__GET_WEATHER' => '{provider = "mock"}']);
            register_shutdown_function(self::$shared->stop(...));
        }
        return self::$shared->socket;
    }
}
