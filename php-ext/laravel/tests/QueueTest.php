<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Illuminate\Support\Facades\DB;
use Illuminate\Support\Facades\Queue;
use Illuminate\Support\Facades\Schema;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\PillionManager;
use Pillion\Laravel\Tests\Fixtures\NoteIt;
use Pillion\Laravel\Tests\Support\Laravel;
use Pillion\Tests\Support\FakeServer;

/** Jobs that a worker in another process runs, like Horizon's workers: `artisan queue:work`. */
final class QueueTest extends TestCase
{
    /** @return array<string, string> */
    protected function files(): array
    {
        $pillion = ['servers' => ['dice' => ['url' => FakeServer::url()]], 'approvals' => [
            'tools' => ['get_time' => 'always-ask'],
            'driver' => 'database',
        ]];
        if (extension_loaded('pillion')) {
            // The sidecar has its own credentials.
            $pillion['servers']['dice']['token'] = 's3cret';
        }
        return [
            'config/queue.php' => "<?php return ['default' => 'database', 'connections' => ['database' =>"
                . " ['driver' => 'database', 'table' => 'jobs', 'queue' => 'default', 'retry_after' => 90]], 'failed' => ['driver' => 'null']];",
            ...self::DATABASE_FILE,
            'config/pillion.php' => '<?php return ' . var_export($pillion, true) . ';',
        ];
    }

    public function test_a_queue_worker_continues_for_the_user_of_the_job(): void
    {
        Schema::create('jobs', function ($table): void {
            $table->bigIncrements('id');
            $table->string('queue');
            $table->longText('payload');
            foreach (['attempts', 'reserved_at', 'available_at', 'created_at'] as $column) {
                $table->unsignedInteger($column)->nullable();
            }
        });
        (require __DIR__ . '/../database/migrations/2026_01_01_000000_create_pillion_approvals_table.php')->up();

        $ofAcme = Pillion::forUser('alice')->forTenant('acme');
        Queue::push(new NoteIt($ofAcme->server('dice'), $ofAcme));
        Queue::push(new NoteIt(Pillion::server('dice'), $this->app->make(PillionManager::class)));
        $payloads = DB::table('jobs')->pluck('payload')->implode(' ');
        self::assertStringNotContainsString('s3cret', $payloads);
        self::assertStringNotContainsString('127.0.0.1', $payloads);

        $printed = Laravel::artisan($this->folder->path, 'queue:work', '--stop-when-empty', '--sleep=0', '--tries=1');
        self::assertSame(0, DB::table('jobs')->count(), $printed);
        $lines = file(storage_path('notes'), FILE_IGNORE_NEW_LINES | FILE_SKIP_EMPTY_LINES);
        [$first, $second] = array_map(fn (string $line) => json_decode($line, true), $lines);
        self::assertNotSame(getmypid(), $first['process']);
        self::assertSame($first['process'], $second['process'], 'one worker, job after job');
        $expected = ['total' => 15, 'sum' => '42', 'waits' => 'approval_required', 'facade' => null];
        self::assertEquals($expected + ['server' => ['alice', 'acme'], 'manager' => ['alice', 'acme']], array_diff_key($first, ['process' => 0]));
        self::assertEquals($expected + ['server' => [null, null], 'manager' => [null, null]], array_diff_key($second, ['process' => 0]));
        self::assertCount(1, $ofAcme->approvals()->pendingFor('alice'), 'what waits in the worker is seen here');
    }
}
