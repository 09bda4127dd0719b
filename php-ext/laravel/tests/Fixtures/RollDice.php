<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Fixtures;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Queue\InteractsWithQueue;
use Pillion\Laravel\Servers\Server;

final class RollDice implements ShouldQueue
{
    use InteractsWithQueue;
    use Queueable;

    public static ?int $total = null;

    public function __construct(public readonly Server $server)
    {
    }

    public function handle(): void
    {
        $result = $this->server->callTool('roll', ['dice' => '1d20']);
        self::$total = $result->result['total'];
    }
}
