<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Fixtures;

use DomainException;
use Illuminate\Foundation\Auth\User;
use Illuminate\Support\Facades\Auth;
use Illuminate\Support\Facades\DB;
use Illuminate\Support\Facades\Event;
use Pillion\AsTool;
use Pillion\Event\ToolCallFinished;
use Pillion\Worker\Call;

/** The tools of a worker in another process. */
final class WorkTools
{
    #[AsTool(description: 'Who calls')]
    public function whoami(): array
    {
        return ['user' => Call::current()->user, 'process' => getmypid()];
    }

    #[AsTool(description: 'Leaves much behind')]
    public function untidy(): array
    {
        app()->bound('counter') || app()->scoped('counter', fn () => (object) ['calls' => 0]);
        app('counter')->calls++;
        DB::statement('create table if not exists notes (text)');
        $notes = DB::table('notes')->count();
        DB::beginTransaction();
        DB::table('notes')->insert(['text' => 'left behind']);
        $before = Auth::user()?->id;
        Auth::setUser((new User())->forceFill(['id' => 7]));
        return ['calls' => app('counter')->calls, 'notes' => $notes, 'user' => $before, 'level' => DB::transactionLevel()];
    }

    #[AsTool(description: 'Fails')]
    public function broken(): void
    {
        throw new DomainException('This is broken');
    }

    #[AsTool(description: 'Once an hour')]
    public function limited(): string
    {
        Event::listen(ToolCallFinished::class, fn (ToolCallFinished $event) => print("finished $event->toolName\n"));
        return 'once';
    }
}
