<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Fixtures;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Queue\InteractsWithQueue;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\PillionManager;
use Pillion\Laravel\Servers\Server;

/** A job with a server and the manager that records their state. */
final class NoteIt implements ShouldQueue
{
    use InteractsWithQueue;
    use Queueable;

    public function __construct(private readonly Server $server, private readonly PillionManager $pillion)
    {
    }

    public function handle(): void
    {
        $note = [
            'process' => getmypid(),
            'total' => $this->server->callTool('roll', ['dice' => '1d20'])->result['total'],
            'server' => [$this->server->user, $this->server->tenant],
            'manager' => [$this->pillion->server('dice')->user, $this->pillion->server('dice')->tenant],
            'facade' => Pillion::server('dice')->user,
            'sum' => $this->pillion->call('calculator', ['expression' => '6 * 7'])->result,
            'waits' => $this->pillion->call('get_time')->errorCode,
        ];
        file_put_contents(storage_path('notes'), json_encode($note) . "\n", FILE_APPEND);
    }
}
