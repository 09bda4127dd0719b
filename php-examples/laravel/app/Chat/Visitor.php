<?php

declare(strict_types=1);

namespace App\Chat;

use Illuminate\Support\Str;

/** Who talks: this application has no log-in, so everybody is a number in their session. */
class Visitor
{
    public static function id(): ?string
    {
        if (!app()->bound('session') || !session()->isStarted()) {
            return null;
        }
        if (!session()->has('visitor')) {
            session(['visitor' => (string) Str::uuid()]);
        }
        return session('visitor');
    }
}
